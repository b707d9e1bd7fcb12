//! Judges tokens: by the cache where that is enough, by their signature where it is not.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use jsonwebtoken::{
    Algorithm, DecodingKey, Header, Validation, dangerous::insecure_decode_claims, decode, decode_header,
    errors::ErrorKind, jwk::Jwk,
};
use ron_kernel::Clock;
use serde::Deserialize;
use serde_json::{Map, Value};
use types::{ActorId, Moment};

use super::{
    ClaimRule, IssuerPolicy, JwtError, KeySet, Policy,
    cache::{TokenCache, TokenDigest},
    keys,
    wanted::KeysWanted,
};

/// The longest token looked at.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// Verified tokens remembered, at some 250 bytes each, and 8 for each rule about claims that one meets: 2.5 MB at worst
/// without rules.
const CACHE_CAPACITY: usize = 10_000;

/// The claims of a verified token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// On whose account the request goes; `None` if the token does not say.
    pub tenant: Option<ActorId>,
    /// From when on the token counts no more, leeway included, since the Unix epoch.
    pub expires: Duration,
    /// The rules about claims that it meets, of those that the policy has.
    pub met: Box<[Arc<ClaimRule>]>,
}

impl Claims {
    /// Whether the token's time is over at `unix`, since the Unix epoch.
    #[must_use]
    pub fn expired(&self, unix: Duration) -> bool {
        unix >= self.expires
    }

    /// Whether the token meets a rule about its claims. A rule that the policy did not have when it was verified is not
    /// met.
    #[must_use]
    pub fn meets(&self, rule: &ClaimRule) -> bool {
        self.met.iter().any(|met| **met == *rule)
    }
}

/// Judges tokens against the keys in force. One serves all cores.
pub struct Verifier {
    clock: Clock,
    state: ArcSwap<State>,
    pub(super) wanted: KeysWanted,
}

/// The keys with what they verified: whoever replaces the keys forgets it with them, and a check that is in progress
/// meanwhile can leave nothing behind.
struct State {
    /// Counts states from the first.
    generation: u64,
    policy: Policy,
    /// The keys of each issuer, by its name.
    sets: Sets,
    /// In the order of the policy.
    issuers: Vec<TrustedIssuer>,
    verified: TokenCache,
}

/// The keys of each issuer, by its name.
type Sets = BTreeMap<String, KeySet>;

/// An issuer with the keys that it is known by.
struct TrustedIssuer {
    policy: IssuerPolicy,
    keys: Vec<Key>,
}

struct Key {
    id: Option<String>,
    decoding: DecodingKey,
    validation: Validation,
}

/// What is read of a token before anybody has verified it: whose keys to try.
#[derive(Deserialize)]
struct Unverified {
    iss: Option<Value>,
}

impl Verifier {
    /// A verifier that has no keys yet.
    #[must_use]
    pub fn new(policy: Policy, clock: Clock) -> Self {
        let state = ArcSwap::from_pointee(State::new(0, policy, Sets::new()));
        Self { clock, state, wanted: KeysWanted::default() }
    }

    /// What a token says that was verified lately; `None` for any other, which [`Verifier::verify`] has to judge. One
    /// digest and one lookup, cheap enough for requests that are not admitted yet.
    #[must_use]
    pub fn peek(&self, token: &str, now: Moment) -> Option<Arc<Claims>> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        self.state.load().verified.get(&TokenDigest::of(token), self.clock.unix_at(now))
    }

    /// What a token says, once its signature, its time, its issuer and its audience have been checked. A signature
    /// takes some 50 to 100 µs of this thread, which is less than it costs to have another do it: the caller must have
    /// admitted the request. A key that is not known is asked for in the background.
    ///
    /// # Errors
    /// [`JwtError`].
    pub fn verify(&self, token: &str) -> Result<Arc<Claims>, JwtError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(JwtError::TooLong);
        }
        let (unix, state, digest) = (self.clock.unix(), self.state.load(), TokenDigest::of(token));
        // While this request waited, another may have brought the same token.
        if let Some(known) = state.verified.get(&digest, unix) {
            return Ok(known);
        }
        let claims = state.judge(token, unix, &self.wanted)?;
        let claims = Arc::new(claims);
        state.verified.insert(digest, Arc::clone(&claims), unix);
        Ok(claims)
    }

    /// Puts other keys of an issuer in force. The same keys again change nothing; others forget every token that was
    /// verified.
    pub fn set_keys(&self, issuer: &str, keys: &KeySet) {
        self.replace(|state| {
            let mut sets = state.sets.clone();
            let before = sets.insert(issuer.to_owned(), keys.clone());
            (before.as_ref() != Some(keys)).then(|| (state.policy.clone(), sets))
        });
    }

    /// Forgets the keys of an issuer: none of its tokens verifies until there are others.
    pub fn forget_keys(&self, issuer: &str) {
        self.forget(|known| known == issuer);
    }

    /// Forgets the keys of all issuers but these.
    pub fn keep_only(&self, issuers: &[&str]) {
        self.forget(|known| !issuers.contains(&known));
    }

    /// Asks something else of tokens from now on.
    pub fn set_policy(&self, policy: Policy) {
        self.replace(|state| (state.policy != policy).then(|| (policy.clone(), state.sets.clone())));
    }

    /// Counts the changes of the keys and of what is asked of tokens: what was verified before one may be refused after it.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.state.load().generation
    }

    /// Whether there are keys of an issuer.
    #[must_use]
    pub fn has_keys(&self, issuer: &str) -> bool {
        self.state.load().sets.contains_key(issuer)
    }

    fn forget(&self, is_forgotten: impl Fn(&str) -> bool) {
        self.replace(|state| {
            let kept = |(name, _): &(&String, &KeySet)| !is_forgotten(name);
            let sets: Sets =
                state.sets.iter().filter(kept).map(|(name, set)| (name.clone(), set.clone())).collect();
            (sets.len() < state.sets.len()).then(|| (state.policy.clone(), sets))
        });
    }

    fn replace(&self, change: impl Fn(&State) -> Option<(Policy, Sets)>) {
        self.state.rcu(|state| match change(state) {
            Some((policy, sets)) => Arc::new(State::new(state.generation + 1, policy, sets)),
            None => Arc::clone(state),
        });
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.load();
        f.debug_struct("Verifier").field("policy", &state.policy).field("issuers", &state.sets.len()).finish()
    }
}

impl State {
    fn new(generation: u64, policy: Policy, sets: Sets) -> Self {
        let issuers = policy.issuers.iter().map(|issuer| {
            let set = sets.get(&issuer.issuer);
            let keys =
                set.into_iter().flat_map(KeySet::iter).filter_map(|jwk| Key::new(jwk, issuer)).collect();
            TrustedIssuer { policy: issuer.clone(), keys }
        });
        let issuers = issuers.collect();
        Self { generation, policy, sets, issuers, verified: TokenCache::new(CACHE_CAPACITY) }
    }

    /// What a token says, if it is accepted. Adds its issuer to `wanted` if its key is not known.
    fn judge(&self, token: &str, unix: Duration, wanted: &KeysWanted) -> Result<Claims, JwtError> {
        let header = decode_header(token).map_err(|_| JwtError::Malformed)?;
        if header.crit.is_some() {
            return Err(JwtError::Critical);
        }
        let issuer = self.issuer_of(token)?;
        let key = issuer.key(&header).inspect_err(|error| {
            if matches!(error, JwtError::UnknownKey | JwtError::NoKeys) {
                wanted.add(&issuer.policy.issuer);
            }
        })?;
        let claims: Map<String, Value> =
            decode(token, &key.decoding, &key.validation).map_err(translate)?.claims;
        // The library also takes a list that has the issuer in it, of which nobody knows who of them signed.
        if claims.get("iss").is_some_and(|issuer| !issuer.is_string()) {
            return Err(JwtError::Claim("iss"));
        }
        let expires = check_time(&claims, unix, issuer.policy.leeway)?;
        let met = self.policy.claim_rules.iter().filter(|rule| rule.is_met(&claims));
        Ok(Claims { tenant: self.tenant(&claims)?, expires, met: met.map(Arc::clone).collect() })
    }

    /// The issuer that a token names, whose keys have yet to verify it; the only one if there are no others.
    fn issuer_of(&self, token: &str) -> Result<&TrustedIssuer, JwtError> {
        if let [only] = self.issuers.as_slice() {
            return Ok(only);
        }
        let Unverified { iss } = insecure_decode_claims(token).map_err(|_| JwtError::Malformed)?;
        let Some(Value::String(name)) = iss else { return Err(JwtError::Claim("iss")) };
        self.issuers.iter().find(|issuer| issuer.policy.issuer == name).ok_or(JwtError::Issuer)
    }

    fn tenant(&self, claims: &Map<String, Value>) -> Result<Option<ActorId>, JwtError> {
        let found = self.policy.tenant_claims.iter().find_map(|name| claims.get(name));
        let name = match found {
            None => return Ok(None),
            Some(Value::String(text)) => ActorId::new(text),
            Some(Value::Number(number)) if number.is_u64() => ActorId::new(&number.to_string()),
            Some(_) => return Err(JwtError::Tenant),
        };
        name.map(Some).map_err(|_| JwtError::Tenant)
    }
}

impl TrustedIssuer {
    /// The key that a token names and whose algorithm it has; the only key for a token that names none.
    fn key(&self, header: &Header) -> Result<&Key, JwtError> {
        if self.keys.is_empty() {
            return Err(JwtError::NoKeys);
        }
        let named: Vec<&Key> = match &header.kid {
            Some(id) => self.keys.iter().filter(|key| key.id.as_ref() == Some(id)).collect(),
            None if self.keys.len() == 1 => self.keys.iter().collect(),
            None => Vec::new(),
        };
        if named.is_empty() {
            return Err(JwtError::UnknownKey);
        }
        named
            .into_iter()
            .find(|key| key.validation.algorithms.contains(&header.alg))
            .ok_or(JwtError::Algorithm)
    }
}

impl Key {
    fn new(jwk: &Jwk, issuer: &IssuerPolicy) -> Option<Self> {
        let (decoding, algorithms) = keys::decoding_key(jwk)?;
        let validation = validation(algorithms, issuer);
        Some(Self { id: jwk.common.key_id.clone(), decoding, validation })
    }
}

/// What the library checks: the signature, the issuer and the audience.
fn validation(algorithms: Vec<Algorithm>, issuer: &IssuerPolicy) -> Validation {
    let mut validation = Validation { algorithms, validate_exp: false, ..Validation::default() };
    let mut required = vec!["exp"];
    if !issuer.issuer.is_empty() {
        required.push("iss");
        validation.set_issuer(&[&issuer.issuer]);
    }
    if !issuer.audience.is_empty() {
        required.push("aud");
        validation.set_audience(&[&issuer.audience]);
    }
    validation.set_required_spec_claims(&required);
    validation
}

/// Until when the token counts, since the epoch. It is judged here and not by the library, whose clock no test can
/// set.
fn check_time(claims: &Map<String, Value>, unix: Duration, leeway: Duration) -> Result<Duration, JwtError> {
    let expires = time(claims, "exp")?.ok_or(JwtError::Claim("exp"))?.saturating_add(leeway);
    if unix >= expires {
        return Err(JwtError::Expired);
    }
    let begins = time(claims, "nbf")?.unwrap_or_default();
    if unix.saturating_add(leeway) < begins {
        return Err(JwtError::NotYet);
    }
    Ok(expires)
}

/// A claim in seconds since the epoch, which may have a fraction. Moments before the epoch are as far away as it is.
fn time(claims: &Map<String, Value>, name: &'static str) -> Result<Option<Duration>, JwtError> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let seconds = value.as_f64().ok_or(JwtError::Claim(name))?;
    Ok(Some(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)))
}

/// Without the library's own words, which could show parts of a token.
fn translate(error: jsonwebtoken::errors::Error) -> JwtError {
    match error.into_kind() {
        ErrorKind::InvalidSignature => JwtError::Signature,
        ErrorKind::InvalidIssuer => JwtError::Issuer,
        ErrorKind::InvalidAudience => JwtError::Audience,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidKeyFormat => JwtError::Algorithm,
        ErrorKind::MissingRequiredClaim(claim) => {
            let known = ["exp", "iss", "aud"].into_iter().find(|name| claim == *name);
            known.map_or(JwtError::Malformed, JwtError::Claim)
        }
        _ => JwtError::Malformed,
    }
}
