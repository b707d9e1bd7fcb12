//! What can go wrong between us and an origin: whether to try again, and what the client is told.

use http::StatusCode;
use ron_kernel::{Fault, blame, blocking::BlockingError, retry::Retryable};
use ron_transport::{
    client::{ConnectError, SendFault},
    dial::DialError,
    resolve::ResolveError,
    tls::HandshakeError,
};
use types::{Reason, Refusal};

/// Why a try did not bring the object.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The origin's name does not resolve.
    #[error("it does not resolve: {0}")]
    Resolve(#[from] ResolveError),
    /// The origin accepts no connection.
    #[error("{0}")]
    Dial(#[from] DialError),
    /// It accepts connections and cannot be spoken to.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// It took too long to connect.
    #[error("it took too long to connect")]
    ConnectTimeout,
    /// The origin's response broke off.
    #[error("it broke off: {0}")]
    Broken(String),
    /// It was silent for too long, or sends too slowly.
    #[error("it took too long")]
    Late,
    /// It keeps sending what nobody wants any more.
    #[error("no client waited for it any more")]
    Unwanted,
    /// Other fills took too long, so that it was not asked, or there was no room for what it sends.
    #[error("other fills took too long")]
    Waited,
    /// It sent more than it said.
    #[error("it sent more bytes than it announced")]
    WentOn,
    /// It answered, but not with the object.
    #[error("it answered {status}")]
    Status {
        /// The status of the origin's response.
        status: StatusCode,
        /// How many seconds it asks to be left alone.
        retry_after: Option<u64>,
    },
    /// It could not be written to the store, which may be full.
    #[error("it cannot be stored: {0}")]
    Unwritten(String),
    /// There is no room for it in the store, of which everything is being read; it is short enough to be held instead.
    #[error("all that is stored is in use")]
    InUse,
    /// We will not have it, and trying again changes nothing.
    #[error("{0}")]
    Refused(Refusal),
    /// Something of ours was in the way.
    #[error("{0}")]
    Ours(Fault),
}

impl Failure {
    /// A refusal for this reason.
    pub(super) fn refused(reason: Reason, detail: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Self::Refused(Refusal::new(reason, detail))
    }

    /// How many seconds the origin asks to be left alone.
    pub(super) fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether this node lacked what a connection needs, such as a file descriptor.
    fn is_local(&self) -> bool {
        match self {
            Self::Resolve(error) => error.is_local(),
            Self::Dial(error) => error.is_local(),
            _ => false,
        }
    }

    /// Whether it says something of the origin, so that it need not be asked again for a moment.
    pub(super) fn is_the_origins(&self) -> bool {
        !self.is_local()
            && !matches!(
                self,
                Self::Ours(_) | Self::Unwritten(_) | Self::InUse | Self::Unwanted | Self::Waited
            )
    }

    /// What may be blamed on the origin; nothing if it has answered, however little we like it. Only an origin that does not
    /// answer is left alone.
    pub(super) fn blamed(&self) -> Option<blame::Failure> {
        match self {
            _ if self.is_local() => None,
            Self::Resolve(_) | Self::Dial(_) | Self::Connect(_) | Self::ConnectTimeout => {
                Some(blame::Failure::Unreached)
            }
            Self::Broken(_) | Self::Late => Some(blame::Failure::Answer),
            _ => None,
        }
    }

    /// What a client is told. What was seen of the origin's network is for the log.
    pub(super) fn refusal(&self) -> Refusal {
        let bad = |what: &'static str| Refusal::new(Reason::BadGateway, what);
        match self {
            Self::Resolve(_) => bad("the origin's name does not resolve"),
            Self::Dial(_) | Self::ConnectTimeout => bad("the origin cannot be reached"),
            Self::Connect(_) => bad("the origin cannot be spoken to"),
            Self::Broken(_) => bad("the origin broke off"),
            Self::Late => Refusal::new(Reason::DownstreamTimeout, "the origin did not answer in time"),
            Self::Unwanted => {
                Refusal::new(Reason::DownstreamTimeout, "the object takes long, and nobody waited for it")
            }
            Self::Waited => {
                Refusal::new(Reason::DownstreamTimeout, "other fills of the origin took too long")
            }
            Self::WentOn => bad("the origin sent more than it said"),
            Self::Status { status, .. } => {
                Refusal::new(Reason::BadGateway, format!("the origin answered {}", status.as_u16()))
            }
            Self::Unwritten(_) => Refusal::new(Reason::Internal, "the object cannot be stored"),
            Self::InUse => Fault::Busy.into(),
            Self::Refused(refusal) => refusal.clone(),
            Self::Ours(fault) => fault.clone().into(),
        }
    }
}

impl Retryable for Failure {
    fn retryable(&self) -> bool {
        match self {
            Self::Resolve(error) => !matches!(error, ResolveError::NoAddress),
            Self::Dial(error) => error.retryable(),
            Self::Connect(ConnectError::Handshake(error)) => {
                matches!(error, HandshakeError::Timeout { .. } | HandshakeError::Io(_))
            }
            Self::Connect(ConnectError::Protocol { .. }) => false,
            Self::Connect(ConnectError::Broken(_)) | Self::ConnectTimeout | Self::Broken(_) => true,
            Self::Status { status, .. } => matches!(status.as_u16(), 502..=504),
            Self::Late
            | Self::Unwanted
            | Self::Waited
            | Self::WentOn
            | Self::Unwritten(_)
            | Self::InUse
            | Self::Refused(_)
            | Self::Ours(_) => false,
        }
    }
}

impl From<SendFault> for Failure {
    fn from(fault: SendFault) -> Self {
        Self::Broken(fault.to_string())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<BlockingError> for Failure {
    fn from(error: BlockingError) -> Self {
        Self::Ours(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> Failure {
        Failure::Status { status: StatusCode::from_u16(code).expect("a status"), retry_after: None }
    }

    #[test]
    fn only_what_may_pass_by_itself_is_tried_again() {
        for code in [502, 503, 504] {
            assert!(status(code).retryable(), "{code}");
        }
        for code in [500, 501, 505, 400, 403, 404, 429, 206] {
            assert!(!status(code).retryable(), "{code}");
        }
        assert!(Failure::ConnectTimeout.retryable());
        assert!(Failure::Broken("x".into()).retryable());
        assert!(!Failure::WentOn.retryable());
        assert!(!Failure::refused(Reason::EtagInvalid, "x").retryable());
        let wanted = ron_transport::client::Protocol::Http2;
        assert!(!Failure::Connect(ConnectError::Protocol { wanted }).retryable());
    }

    #[test]
    fn each_failure_has_its_reason_and_tells_nothing_of_the_network() {
        for (failure, reason) in [
            (status(503), Reason::BadGateway),
            (Failure::ConnectTimeout, Reason::BadGateway),
            (Failure::Broken("10.0.0.7 says no".into()), Reason::BadGateway),
            (Failure::WentOn, Reason::BadGateway),
            (Failure::Late, Reason::DownstreamTimeout),
            (Failure::Unwanted, Reason::DownstreamTimeout),
            (Failure::Waited, Reason::DownstreamTimeout),
            (Failure::refused(Reason::SourceCap, "too large"), Reason::SourceCap),
            (Failure::Ours(Fault::Busy), Reason::Busy),
        ] {
            let refusal = failure.refusal();
            assert_eq!(refusal.reason, reason, "{failure}");
            assert!(!refusal.detail.contains("10.0.0.7"), "{refusal}");
        }
    }
}
