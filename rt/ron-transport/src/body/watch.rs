//! The arrival of a request's body: who is waited for, and for how long.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use types::{Moment, Reason, Refusal};

use super::BodyError;
use crate::{
    UploadWatch,
    serve::{Activity, Pace, Slowness, more_time_for},
};

/// What a poll of a body gives.
pub(crate) type Polled = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

/// Tells the connection whether its client keeps a reader of its request's body waiting, and ends a body that comes too
/// slowly. A reader that has lost interest does not wait, so dropping the body ends the wait.
///
/// There is no timer before the first wait. Later waits share that one, which is reset only when it fires too early.
pub(super) struct Watch {
    activity: Arc<Activity>,
    /// By when all of it has to be here, later with each byte that arrives; `None` for a body that may take any time.
    whole_by: Option<Moment>,
    waits_since: Option<Moment>,
    pace: Pace,
    timer: Option<Pin<Box<Sleep>>>,
    /// What was announced and has not been read.
    unread: u64,
    /// What was looked at before anybody read.
    pub(super) ahead: Option<Result<Frame<Bytes>, BodyError>>,
    /// Another observer of the upload, if there is one.
    upload: Option<UploadWatch>,
}

impl Watch {
    pub(super) fn begin(
        activity: &Arc<Activity>,
        announced: u64,
        ahead: Option<Result<Frame<Bytes>, BodyError>>,
    ) -> Self {
        Self {
            whole_by: Some(activity.body_began()),
            activity: Arc::clone(activity),
            waits_since: None,
            pace: Pace::default(),
            timer: None,
            unread: announced,
            ahead,
            upload: None,
        }
    }

    /// Lets the body take any time, as long as its client is not silent for longer than a connection may idle.
    pub(super) fn allow_any_time(&mut self) {
        self.end_wait();
        self.whole_by = None;
    }

    pub(super) fn watch_upload(&mut self) -> UploadWatch {
        let upload = self.upload.insert(UploadWatch::begin(self.activity.now()));
        if self.waits_since.is_some() {
            upload.clients_turn();
        }
        upload.clone()
    }

    /// Notes what a poll gave; turns a wait that has lasted too long into an error.
    pub(super) fn polled(&mut self, polled: Polled, cx: &mut Context<'_>) -> Polled {
        if let Poll::Ready(frame) = &polled {
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
            self.arrived(data.map_or(0, Bytes::len));
            return polled;
        }
        if self.waits_since.is_none() {
            self.begin_wait();
        }
        match self.poll_too_slow(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(why) => {
                self.activity.body_too_slow(why);
                self.end_wait();
                self.servers_turn();
                Poll::Ready(Some(Err(BodyError::new(too_slow(why)))))
            }
        }
    }

    fn arrived(&mut self, bytes: usize) {
        self.unread = self.unread.saturating_sub(bytes as u64);
        let since = self.waits_since.take();
        if let Some(whole_by) = &mut self.whole_by {
            *whole_by = whole_by.after(more_time_for(bytes));
            self.activity.body_arrived(since, bytes, &mut self.pace);
        }
        self.servers_turn();
    }

    fn begin_wait(&mut self) {
        let timed = self.whole_by.is_some();
        let since = if timed { self.activity.body_waits(&self.pace) } else { self.activity.now() };
        self.waits_since = Some(since);
        if let Some(upload) = &self.upload {
            upload.clients_turn();
        }
    }

    fn end_wait(&mut self) {
        if let Some(since) = self.waits_since.take().filter(|_| self.whole_by.is_some()) {
            self.activity.body_given_up(since);
        }
    }

    /// Ready once the present wait has lasted too long.
    fn poll_too_slow(&mut self, cx: &mut Context<'_>) -> Poll<Slowness> {
        loop {
            let (until, why) = self.until();
            let left = until.since(self.activity.now());
            if left.is_zero() {
                return Poll::Ready(why);
            }
            let over_at = Instant::now() + left.min(LONGEST_TIMER);
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(over_at)));
            if timer.deadline() > over_at || timer.is_elapsed() {
                timer.as_mut().reset(over_at);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// When the present wait has lasted too long, and why.
    fn until(&self) -> (Moment, Slowness) {
        let Some(whole_by) = self.whole_by else {
            let since = self.waits_since.unwrap_or_else(|| self.activity.now());
            return (since.after(self.activity.longest_silence()), Slowness::Stalled);
        };
        match self.activity.body_until() {
            Some((until, why)) if until <= whole_by => (until, why),
            _ => (whole_by, Slowness::Overtime),
        }
    }

    /// What is still to be read, of which `rest` has not been looked at.
    pub(super) fn hint(&self, rest: &SizeHint) -> SizeHint {
        let ahead = self.ahead.as_ref().and_then(|ahead| ahead.as_ref().ok()).and_then(Frame::data_ref);
        match (rest.exact(), ahead) {
            (Some(rest), Some(ahead)) => SizeHint::with_exact(rest + ahead.len() as u64),
            _ => *rest,
        }
    }

    fn servers_turn(&self) {
        if let Some(upload) = &self.upload {
            upload.servers_turn(self.activity.now());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.waits_since.is_some() {
            self.servers_turn();
        }
        self.end_wait();
        self.activity.body_ended(self.unread);
    }
}

/// The longest that the timer is set for.
const LONGEST_TIMER: Duration = Duration::from_secs(86_400);

fn too_slow(why: Slowness) -> Refusal {
    let detail = match why {
        Slowness::Stalled => "no more of the request's body arrived",
        Slowness::BelowMinRate => "the request's body arrived at less than the minimum rate",
        Slowness::Overtime => "the request took too long to arrive",
    };
    Refusal::new(Reason::RequestTimeout, detail)
}
