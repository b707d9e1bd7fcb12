//! One certificate from a CA: the account, the order, the answers to its challenges, the chain.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Error,
    ExternalAccountKey, Identifier, Key, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use ron_kernel::blocking::{Blocking, BlockingError};
use ron_transport::tls::{Inspected, RenewalId, TlsError};
use rustls_pki_types::{Der, PrivateKeyDer};

use super::{
    answers::{Answers, Found},
    ca_client::{CaClient, CaError},
    hook::{DnsHook, HookError, TxtRecord},
    schedule::Failure,
    store::{AcmeStoreError, Store},
    words,
};
use crate::config::{AcmeChallenge, AcmeConfig};

/// How long the CA may take to check a name, and again to issue.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a whole order may take, besides the runs of a hook.
const ORDER_TIMEOUT: Duration = Duration::from_secs(600);
/// The most authorizations of an order, which is for one name.
const MAX_AUTHORIZATIONS: usize = 8;
/// The longest token of a challenge, in bytes.
const MAX_TOKEN: usize = 256;
/// How often the CA is asked how far it is: at first soon, then less and less often.
const POLL: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).backoff(1.5).timeout(CHECK_TIMEOUT);
/// What begins the types of ACME's problems.
const URN: &str = "urn:ietf:params:acme:error:";

/// Why there is no new certificate. Messages are fit for a log line and name no secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    /// The CA refuses, or could not check the name.
    #[error("the CA refuses: {}", words::of_problem(.0))]
    Refused(Problem),
    /// The CA could not be asked.
    #[error("{0}")]
    Unreachable(CaError),
    /// The CA does not check names in the configured way.
    #[error("the CA does not offer the challenge {0}")]
    NoChallenge(&'static str),
    /// The CA calls the order invalid and does not say why.
    #[error("the CA calls the order {0:?}")]
    BadOrder(OrderStatus),
    /// The answer cannot be given.
    #[error("the challenge cannot be answered: {0}")]
    Answer(String),
    /// The operator's program failed.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// The folder of the CA cannot be used.
    #[error("{0}")]
    Store(#[from] AcmeStoreError),
    /// What the CA has issued cannot be kept. It counts what it issues, so this is no reason to ask again soon.
    #[error("{0}")]
    NotKept(AcmeStoreError),
    /// The blocking pool is not available.
    #[error(transparent)]
    Blocking(#[from] BlockingError),
    /// The key or the request for a certificate cannot be made.
    #[error("the certificate request cannot be created: {0}")]
    Csr(#[from] rcgen::Error),
    /// It took too long.
    #[error("the CA did not finish in time")]
    Timeout,
    /// What the CA said is not ACME.
    #[error("the CA's answer is invalid: {}", words::bounded(&.0.to_string()))]
    Nonsense(Error),
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => Self::Refused(problem),
            Error::Timeout(_) => Self::Timeout,
            Error::Other(cause) => match cause.downcast::<CaError>() {
                Ok(cause) => Self::Unreachable(*cause),
                Err(cause) => Self::Nonsense(Error::Other(cause)),
            },
            other => Self::Nonsense(other),
        }
    }
}

impl OrderError {
    /// How it bears on the next attempt.
    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::Refused(problem) if problem.is("rateLimited") => Failure::RateLimited,
            Self::Unreachable(CaError::Status(status)) if status.as_u16() == 429 => Failure::RateLimited,
            Self::Refused(problem) if problem.is("serverInternal") => Failure::Outage,
            Self::Unreachable(_) | Self::Blocking(_) | Self::Store(_) => Failure::Outage,
            _ => Failure::Refused,
        }
    }

    /// Whether the account is not, or no longer, known to the CA.
    fn is_unknown_account(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.is("accountDoesNotExist"))
    }
}

trait IsOfType {
    fn is(&self, kind: &str) -> bool;
}

impl IsOfType for Problem {
    fn is(&self, kind: &str) -> bool {
        self.r#type.as_deref().and_then(|urn| urn.strip_prefix(URN)) == Some(kind)
    }
}

/// A CA with everything that is needed to order from it.
#[derive(Debug)]
pub(super) struct Ca {
    pub(super) config: AcmeConfig,
    pub(super) client: CaClient,
    pub(super) store: Store,
    pub(super) hook: DnsHook,
    pub(super) answers: Answers,
    pub(super) blocking: Blocking,
    pub(super) clock: ron_kernel::Clock,
}

/// The answers that the CA is to find.
#[derive(Debug, Default)]
struct Placed {
    found: Vec<Found>,
    records: Vec<TxtRecord>,
}

impl Ca {
    /// The account at the CA: the one whose key is kept, or else a new one, whose key is.
    pub(super) async fn account(&self) -> Result<Account, OrderError> {
        let store = self.store.clone();
        let key = self.blocking.run("read account key", move || store.account_key()).await??;
        if let Some(der) = key {
            let key = Key::from_pkcs8_der(der.clone_key())?;
            let builder = Account::builder_with_http(Box::new(self.client.clone()));
            let known = builder.from_key((key, PrivateKeyDer::Pkcs8(der)), self.directory()).await;
            match known.map_err(OrderError::from) {
                Err(error) if error.is_unknown_account() => {
                    tracing::warn!("the CA no longer knows the account: a new one is created");
                }
                known => {
                    let (account, _) = known?;
                    self.tell_contact(&account).await;
                    return Ok(account);
                }
            }
        }
        self.new_account().await
    }

    /// Has the CA know the e-mail address that is configured, if that is another than it was told last. A CA that does not
    /// take it issues certificates all the same.
    async fn tell_contact(&self, account: &Account) {
        let store = self.store.clone();
        let told = self.blocking.run("read contact", move || store.contact()).await;
        let contact = self.contact();
        if told.is_ok_and(|told| told.as_ref() == Some(&contact)) {
            return;
        }
        match account.update_contacts(&listed(&contact)).await.map_err(OrderError::from) {
            Ok(()) => self.keep_contact().await,
            Err(error) => tracing::warn!(%error, "the CA was not told the new e-mail address"),
        }
    }

    /// Where the CA may reach the operator, as it is told; empty for nowhere.
    fn contact(&self) -> String {
        if self.config.email.is_empty() { String::new() } else { format!("mailto:{}", self.config.email) }
    }

    /// Remembers what the CA was told. If that fails, it is told again.
    async fn keep_contact(&self) {
        let (store, contact) = (self.store.clone(), self.contact());
        let kept = self.blocking.run("keep contact", move || store.put_contact(&contact)).await;
        let kept = kept.map_err(OrderError::from).and_then(|kept| kept.map_err(OrderError::from));
        if let Err(error) = kept {
            tracing::warn!(%error, "the CA will be told the e-mail address again");
        }
    }

    async fn new_account(&self) -> Result<Account, OrderError> {
        let contact = self.contact();
        let contact = listed(&contact);
        let wanted =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let bound = self.config.hmac_key().filter(|_| !self.config.eab_key_id.is_empty());
        let bound = bound.map(|key| ExternalAccountKey::new(self.config.eab_key_id.clone(), &key));
        let builder = Account::builder_with_http(Box::new(self.client.clone()));
        let (account, credentials) = builder.create(&wanted, self.directory(), bound.as_ref()).await?;
        let (store, key) = (self.store.clone(), credentials.private_key().clone_key());
        self.blocking.run("keep account key", move || store.put_account_key(&key)).await??;
        self.keep_contact().await;
        Ok(account)
    }

    /// What is kept for a name.
    pub(super) async fn kept(&self, name: &str) -> Result<Result<Inspected, TlsError>, BlockingError> {
        let (store, name) = (self.store.clone(), name.to_owned());
        self.blocking.run("read certificate", move || store.certificate(&name)).await
    }

    /// Makes sure that a certificate could be kept.
    pub(super) async fn check_room(&self) -> Result<(), OrderError> {
        let store = self.store.clone();
        Ok(self.blocking.run("look for room", move || store.check_room()).await??)
    }

    /// Remembers until when the CA is not asked for a name.
    pub(super) async fn keep_wait(&self, name: &str, until: Duration) -> Result<(), OrderError> {
        let (store, name) = (self.store.clone(), name.to_owned());
        Ok(self.blocking.run("keep wait", move || store.put_wait(&name, until)).await??)
    }

    /// Keeps a chain and its key for a name, if they can be served.
    pub(super) async fn keep(&self, name: &str, pem: String) -> Result<Inspected, OrderError> {
        let (store, name) = (self.store.clone(), name.to_owned());
        let kept = self.blocking.run("keep certificate", move || store.put_certificate(&name, &pem)).await?;
        kept.map_err(OrderError::NotKept)
    }

    fn directory(&self) -> String {
        self.config.directory_url().to_owned()
    }

    /// Orders a certificate for `name`, in place of another if that is named; the chain and its key as PEM.
    ///
    /// Not cancel safe: a TXT record may be left behind.
    pub(super) async fn order(
        &self,
        account: &Account,
        name: &str,
        replaces: Option<&RenewalId>,
    ) -> Result<String, OrderError> {
        let mut placed = Placed::default();
        let limit = self.clock.within(ORDER_TIMEOUT + self.hook.timeout);
        let ordered = self.clock.by(limit, self.order_placing(account, name, replaces, &mut placed)).await;
        for record in &placed.records {
            if let Err(error) = self.hook.remove(record).await {
                tracing::warn!(name, %error, "a TXT record could not be removed");
            }
        }
        ordered.unwrap_or(Err(OrderError::Timeout))
    }

    async fn order_placing(
        &self,
        account: &Account,
        name: &str,
        replaces: Option<&RenewalId>,
        placed: &mut Placed,
    ) -> Result<String, OrderError> {
        let mut order = new_order(account, name, replaces).await?;
        let mut authorizations = order.authorizations();
        let mut left = MAX_AUTHORIZATIONS;
        while let Some(authorization) = authorizations.next().await {
            left = left.checked_sub(1).ok_or(Error::Str("an order with too many authorizations"))?;
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let (kind, shown) = self.challenge();
            let mut challenge = authorization.challenge(kind).ok_or(OrderError::NoChallenge(shown))?;
            self.place(&challenge, name, placed).await?;
            challenge.set_ready().await?;
        }
        match order.poll_ready(&POLL).await {
            Ok(OrderStatus::Ready) => {}
            Ok(status) => return Err(why_invalid(&mut order).await.unwrap_or(OrderError::BadOrder(status))),
            Err(Error::Api(problem)) => {
                return Err(why_invalid(&mut order).await.unwrap_or(OrderError::Refused(problem)));
            }
            Err(other) => return Err(other.into()),
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        order.finalize_csr(params.serialize_request(&key)?.der()).await?;
        let chain = order.poll_certificate(&POLL).await?;
        Ok(format!("{}\n{}", chain.trim_end(), key.serialize_pem()))
    }

    fn challenge(&self) -> (ChallengeType, &'static str) {
        match self.config.challenge {
            AcmeChallenge::Http01 => (ChallengeType::Http01, "http-01"),
            AcmeChallenge::TlsAlpn01 => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
            AcmeChallenge::Dns01 => (ChallengeType::Dns01, "dns-01"),
        }
    }

    /// Has the CA find the answer to a challenge.
    async fn place(
        &self,
        challenge: &ChallengeHandle<'_>,
        name: &str,
        placed: &mut Placed,
    ) -> Result<(), OrderError> {
        let answer = challenge.key_authorization();
        match self.config.challenge {
            AcmeChallenge::Http01 if !is_token(&challenge.token) => {
                return Err(OrderError::Answer("its token is none".to_owned()));
            }
            AcmeChallenge::Http01 => {
                placed.found.push(self.answers.put_token(&challenge.token, answer.as_str()));
            }
            AcmeChallenge::TlsAlpn01 => {
                let found = self.answers.put_handshake(name, answer.digest().as_ref());
                placed.found.push(found.map_err(OrderError::Answer)?);
            }
            AcmeChallenge::Dns01 => {
                let record = TxtRecord::new(name, answer.dns_value());
                // Before it is added: a hook that fails may have added it all the same.
                placed.records.push(record.clone());
                self.hook.add(&record).await?;
            }
        }
        Ok(())
    }
}

/// The addresses of an account: one or none.
fn listed(contact: &str) -> Vec<&str> {
    Some(contact).filter(|contact| !contact.is_empty()).into_iter().collect()
}

/// Whether a text can be the token of a challenge, which becomes a part of a URL (RFC 8555, section 8.3).
fn is_token(text: &str) -> bool {
    let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(is_base64url)
}

/// A new order for a name. If the CA does not like what it replaces, it replaces nothing.
async fn new_order(account: &Account, name: &str, replaces: Option<&RenewalId>) -> Result<Order, OrderError> {
    let identifiers = [Identifier::Dns(name.to_owned())];
    if let Some(replaced) = replaces {
        let wanted = NewOrder::new(&identifiers).replaces(identifier(replaced));
        match account.new_order(&wanted).await.map_err(OrderError::from) {
            Err(error) if error.failure() == Failure::Refused => {
                tracing::debug!(name, %error, "an order that replaces a certificate was refused");
            }
            ordered => return ordered,
        }
    }
    Ok(account.new_order(&NewOrder::new(&identifiers)).await?)
}

/// What a CA says of the challenge that failed; `None` if it does not.
async fn why_invalid(order: &mut Order) -> Option<OrderError> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.ok()?;
        let state = authorization.refresh().await.ok()?;
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.clone()) {
            return Some(OrderError::Refused(problem));
        }
    }
    None
}

/// The identifier of a certificate, as the library wants it.
pub(super) fn identifier(id: &RenewalId) -> CertificateIdentifier<'static> {
    CertificateIdentifier::new(Der::from_slice(&id.authority_key), Der::from_slice(&id.serial)).into_owned()
}
