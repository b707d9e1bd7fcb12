//! Why a request was refused, in words that clients, logs and metrics share.

use std::{borrow::Cow, fmt, time::Duration};

/// The closed list of reasons. Each has one wire name and one HTTP status, everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The request breaks the protocol.
    Malformed,
    /// No credential, or one that does not verify.
    Unauth,
    /// A good credential that does not allow this.
    Forbidden,
    /// An origin that is not on the list, or is where none may be.
    NotAllowed,
    /// Nothing is served there.
    NotFound,
    /// Something is served there, but not for this method.
    MethodNotAllowed,
    /// The request did not arrive in time.
    RequestTimeout,
    /// It contradicts what stands, or what is there is not in a state for it.
    Conflict,
    /// Was served there, was found to be damaged, and cannot be had again.
    Gone,
    /// The body is larger than allowed.
    BodyCap,
    /// The decoded body is larger than allowed.
    DecodedCap,
    /// The body expands more than allowed.
    DecodedRatio,
    /// A coding or version that is not spoken here.
    Unsupported,
    /// A range of bytes that makes no sense, or none of which is there.
    InvalidRange,
    /// A rate limit of the caller is used up.
    Quota,
    /// The waiting room is full, and the caller is at or above its share.
    Busy,
    /// Dropped from the waiting room for somebody who is below their share.
    Shed,
    /// The node is shedding writes; reads still work.
    Degraded,
    /// It is being made ready to be served.
    NotReady,
    /// The service behind did not answer sensibly.
    BadGateway,
    /// The origin's answer has no validator that it could be kept under.
    EtagInvalid,
    /// What an origin sends is larger than is taken from one.
    SourceCap,
    /// What an origin or a pack has expands more than allowed.
    SourceExpands,
    /// What is stored here was found to be damaged, and is kept from being served.
    Quarantined,
    /// The service behind did not answer in time.
    DownstreamTimeout,
    /// Would have to be written to a disk, and the node writes nothing.
    Amnesia,
    /// The node is going away.
    Draining,
    /// A fault of ours.
    Internal,
}

impl Reason {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 28] = [
        Self::Malformed,
        Self::Unauth,
        Self::Forbidden,
        Self::NotAllowed,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::Conflict,
        Self::Gone,
        Self::BodyCap,
        Self::DecodedCap,
        Self::DecodedRatio,
        Self::Unsupported,
        Self::InvalidRange,
        Self::Quota,
        Self::Busy,
        Self::Shed,
        Self::Degraded,
        Self::NotReady,
        Self::BadGateway,
        Self::EtagInvalid,
        Self::SourceCap,
        Self::SourceExpands,
        Self::Quarantined,
        Self::DownstreamTimeout,
        Self::Amnesia,
        Self::Draining,
        Self::Internal,
    ];

    /// The name used on the wire, in logs and as a metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unauth => "unauth",
            Self::Forbidden => "forbidden",
            Self::NotAllowed => "not_allowed",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::BodyCap => "body_cap",
            Self::DecodedCap => "decoded-cap",
            Self::DecodedRatio => "decoded-ratio",
            Self::Unsupported => "unsupported",
            Self::InvalidRange => "invalid_range",
            Self::Quota => "quota",
            Self::Busy => "busy",
            Self::Shed => "shed",
            Self::Degraded => "degraded",
            Self::NotReady => "not_ready",
            Self::BadGateway => "bad_gateway",
            Self::EtagInvalid => "etag_invalid",
            Self::SourceCap => "source_cap",
            Self::SourceExpands => "source_expands",
            Self::Quarantined => "quarantined",
            Self::DownstreamTimeout => "downstream_timeout",
            Self::Amnesia => "amnesia",
            Self::Draining => "draining",
            Self::Internal => "internal",
        }
    }

    /// The HTTP status that carries it.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Unauth => 401,
            Self::Forbidden | Self::NotAllowed => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::Conflict => 409,
            Self::Gone => 410,
            Self::BodyCap | Self::DecodedCap | Self::DecodedRatio => 413,
            Self::Unsupported => 415,
            Self::InvalidRange => 416,
            Self::Quota | Self::Busy | Self::Shed => 429,
            Self::Internal => 500,
            Self::BadGateway
            | Self::EtagInvalid
            | Self::SourceCap
            | Self::SourceExpands
            | Self::Quarantined => 502,
            Self::Degraded | Self::NotReady | Self::Draining => 503,
            Self::DownstreamTimeout => 504,
            Self::Amnesia => 507,
        }
    }

    /// Whether the same request may succeed later, unchanged.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(
            self,
            Self::RequestTimeout
                | Self::Quota
                | Self::Busy
                | Self::Shed
                | Self::Degraded
                | Self::NotReady
                | Self::BadGateway
                | Self::Quarantined
                | Self::DownstreamTimeout
                | Self::Draining
        )
    }

    /// A sentence for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Malformed => "The request is malformed",
            Self::Unauth => "A valid credential is needed",
            Self::Forbidden => "The credential does not allow this",
            Self::NotAllowed => "This origin may not be asked",
            Self::NotFound => "Nothing is served here",
            Self::MethodNotAllowed => "This method is not allowed here",
            Self::RequestTimeout => "The request did not arrive in time",
            Self::Conflict => "This contradicts what stands",
            Self::Gone => "What was served here was damaged, and cannot be had again",
            Self::BodyCap => "The body is too large",
            Self::DecodedCap => "The decoded body is too large",
            Self::DecodedRatio => "The body expands too much",
            Self::Unsupported => "This is not supported here",
            Self::InvalidRange => "This range cannot be served",
            Self::Quota => "A rate limit is used up",
            Self::Busy => "Too many requests are waiting",
            Self::Shed => "Dropped to make room for others",
            Self::Degraded => "Writes are refused for now",
            Self::NotReady => "This is being made ready",
            Self::BadGateway => "The service behind failed",
            Self::EtagInvalid => "The origin's answer has no strong validator",
            Self::SourceCap => "What the origin sends is too large",
            Self::SourceExpands => "What is behind expands too much",
            Self::Quarantined => "What is stored here is damaged",
            Self::DownstreamTimeout => "The service behind did not answer in time",
            Self::Amnesia => "This could only be kept on a disk, and nothing is written here",
            Self::Draining => "The node is going away",
            Self::Internal => "Something went wrong here",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal: the reason, what exactly is wrong, and when trying again makes sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Refusal {
    /// The reason for the refusal.
    pub reason: Reason,
    /// What exactly, for the person reading; never a secret.
    pub detail: Cow<'static, str>,
    /// How long to wait before trying again, where that is known.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// A refusal for `reason`, with the particulars in `detail`.
    pub fn new(reason: Reason, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, detail: detail.into(), retry_after: None }
    }

    /// The same refusal, telling the caller when to come back.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self::new(reason, reason.title())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_a_name_of_its_own_and_an_error_status() {
        let names: BTreeSet<_> = Reason::ALL.iter().map(|r| r.as_str()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert!((400..600).contains(&reason.status()), "{reason}");
        }
    }

    /// What clients, dashboards and runbooks rely on, row by row.
    #[test]
    fn each_reason_keeps_its_name_and_status() {
        let table = [
            ("malformed", 400),
            ("unauth", 401),
            ("forbidden", 403),
            ("not_allowed", 403),
            ("not_found", 404),
            ("method_not_allowed", 405),
            ("request_timeout", 408),
            ("conflict", 409),
            ("gone", 410),
            ("body_cap", 413),
            ("decoded-cap", 413),
            ("decoded-ratio", 413),
            ("unsupported", 415),
            ("invalid_range", 416),
            ("quota", 429),
            ("busy", 429),
            ("shed", 429),
            ("degraded", 503),
            ("not_ready", 503),
            ("bad_gateway", 502),
            ("etag_invalid", 502),
            ("source_cap", 502),
            ("source_expands", 502),
            ("quarantined", 502),
            ("downstream_timeout", 504),
            ("amnesia", 507),
            ("draining", 503),
            ("internal", 500),
        ];
        assert_eq!(Reason::ALL.map(|reason| (reason.as_str(), reason.status())), table);
    }

    #[test]
    fn only_what_time_can_mend_is_retryable() {
        let retryable: Vec<_> =
            Reason::ALL.into_iter().filter(|r| r.retryable()).map(Reason::as_str).collect();
        assert_eq!(
            retryable,
            [
                "request_timeout",
                "quota",
                "busy",
                "shed",
                "degraded",
                "not_ready",
                "bad_gateway",
                "quarantined",
                "downstream_timeout",
                "draining"
            ]
        );
    }

    #[test]
    fn a_refusal_reads_as_reason_and_detail() {
        let refusal =
            Refusal::new(Reason::NotFound, "no route matches /x").retry_after(Duration::from_secs(1));
        assert_eq!(refusal.to_string(), "not_found: no route matches /x");
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(1)));
    }
}
