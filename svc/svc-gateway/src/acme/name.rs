//! A name that a certificate is obtained for, and what is known of it.

use std::time::Duration;

use ron_transport::tls::Inspected;

use super::{
    renewer::AcmeStatus,
    schedule::{RETRY_LONGEST, Schedule, Validity},
    settings::AcmeSettings,
};

/// A renewal may fail so often before readiness tells: the old certificate still serves.
const FAILURES_TO_REPORT: u32 = 3;

/// A name, its certificate, and when that is asked for.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) name: String,
    pub(super) certificate: Option<Inspected>,
    pub(super) schedule: Schedule,
    pub(super) last_error: Option<String>,
    /// When the CA is asked next when it suggests to renew.
    pub(super) suggestion_due: Duration,
}

impl Name {
    /// A name as the settings have it; `known` is what was known of it before, at the same CA.
    pub(super) fn following(known: Option<Self>, name: &str, settings: &AcmeSettings, now: Duration) -> Self {
        let until = settings.waits.get(name).filter(|_| known.is_none()).copied();
        let mut name = known.unwrap_or_else(|| Self {
            name: name.to_owned(),
            certificate: None,
            schedule: Schedule::at_once(now),
            last_error: None,
            suggestion_due: now,
        });
        let certificate = name.certificate.take().or_else(|| settings.kept.get(&name.name).cloned());
        match certificate {
            // With a rule that may have changed.
            Some(certificate) if name.schedule.failures() == 0 => {
                name.adopt(certificate, settings.renew_before());
            }
            certificate => name.certificate = certificate,
        }
        name.schedule.hurry();
        // Beyond that, the clock was wrong.
        if let Some(until) = until.filter(|until| (now..now + RETRY_LONGEST * 2).contains(until)) {
            let wait = humantime::format_duration(Duration::from_secs((until - now).as_secs()));
            tracing::info!(name = name.name, %wait, "the CA is not asked before, because the last attempt failed");
            name.schedule.hold_back(until);
        }
        name.suggestion_due = now;
        name
    }

    pub(super) fn status(&self) -> AcmeStatus {
        AcmeStatus {
            name: self.name.clone(),
            expires: self.certificate.as_ref().map(|certificate| certificate.not_after.as_secs()),
            next_attempt: self.schedule.due().as_secs(),
            failures: self.schedule.failures(),
            last_error: self.last_error.clone(),
        }
    }

    /// What readiness tells; `None` if all is well.
    pub(super) fn complaint(&self) -> Option<String> {
        let error = self.last_error.as_ref()?;
        let has_none = self.certificate.is_none();
        (has_none || self.schedule.failures() >= FAILURES_TO_REPORT).then(|| {
            let what = if has_none { "has no certificate" } else { "is not renewed" };
            format!("{} {what}: {error}", self.name)
        })
    }

    /// Takes over a certificate that is in the store.
    pub(super) fn adopt(&mut self, certificate: Inspected, renew_before: Option<Duration>) {
        self.schedule.succeeded(validity(&certificate).renew_at(renew_before, fastrand::f64()));
        self.last_error = None;
        self.certificate = Some(certificate);
    }
}

pub(super) const fn validity(certificate: &Inspected) -> Validity {
    Validity { not_before: certificate.not_before, not_after: certificate.not_after }
}
