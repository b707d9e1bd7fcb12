//! `omnigate token keygen`, `mint` and `attenuate`.

use std::{path::Path, time::Duration};

use aws_lc_rs::rand;
use captoken::{Caveat, Class, Grant, NameList, RootKey, SECRET_LEN, Token, TokenError, TokenId, key_text};
use ron_transport::files;
use svc_gateway::load_root_key;
use zeroize::Zeroizing;

use super::args::{AttenuateArgs, Conditions, MintArgs};
use crate::{commands::print, failure::Failure};

/// How long a token is good for if nobody says.
const USUAL_LIFE: Duration = Duration::from_secs(3600);

/// Writes a new key, and says which it is.
pub(super) fn keygen(path: &Path) -> Result<(), Failure> {
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    fill(&mut secret[..])?;
    files::create_private(path, key_text(&secret).as_bytes()).map_err(Failure::failed)?;
    let id = RootKey::new(&secret).id();
    print(&format!("wrote {}: key {id}; put the file first in auth.root_keys\n", path.display()))
}

/// Makes a token and prints it.
pub(super) fn mint(args: &MintArgs) -> Result<(), Failure> {
    let key = load_root_key(&args.key).map_err(Failure::failed)?;
    let id = args.id.map_or_else(random_id, Ok)?;
    let conditions = &args.conditions;
    let scopes = conditions.scopes.join(",");
    let scopes = NameList::new(&scopes).map_err(|error| wrong("--scope", error))?;
    let grant = Grant { class: conditions.class.map_or(Class::Authed, Class::from), scopes };
    let token = Token::mint(&key, id, &grant).map_err(|error| wrong("--scope", error))?;
    let life = conditions.expires.or((!args.never_expires).then_some(USUAL_LIFE));
    print_token(&narrowed(token, conditions, life)?)
}

/// Adds conditions to a token and prints it.
pub(super) fn attenuate(args: &AttenuateArgs) -> Result<(), Failure> {
    let conditions = &args.conditions;
    let given = args.token.parse()?;
    let before = given.caveats().count();
    let mut token = narrowed(given, conditions, conditions.expires)?;
    if !conditions.scopes.is_empty() {
        let scopes = conditions.scopes.join(",");
        let scopes = NameList::new(&scopes).map_err(|error| wrong("--scope", error))?;
        token = add(token, "--scope", &Caveat::Scopes(scopes))?;
    }
    if let Some(class) = conditions.class {
        token = add(token, "--class", &Caveat::Class(class.into()))?;
    }
    if token.caveats().count() == before {
        return Err(
            Failure::bad_config("there is nothing to add").help("name a condition, such as --expires 5m")
        );
    }
    print_token(&token)
}

/// The token with the conditions that mean the same at minting and after.
fn narrowed(mut token: Token, conditions: &Conditions, life: Option<Duration>) -> Result<Token, Failure> {
    if let Some(tenant) = &conditions.tenant {
        token = add(token, "--tenant", &Caveat::Tenant(tenant))?;
    }
    if let Some(path) = &conditions.path {
        token = add(token, "--path", &Caveat::Path(path))?;
    }
    if !conditions.methods.is_empty() {
        let methods = conditions.methods.join(",").to_ascii_uppercase();
        let methods = NameList::new(&methods).map_err(|error| wrong("--method", error))?;
        token = add(token, "--method", &Caveat::Methods(methods))?;
    }
    if !conditions.networks.is_empty() {
        let mut room = Vec::new();
        let networks =
            Caveat::networks(&conditions.networks, &mut room).map_err(|error| wrong("--ip", error))?;
        token = add(token, "--ip", &networks)?;
    }
    if let Some(wait) = conditions.not_before {
        token = add(token, "--not-before", &Caveat::NotBefore(from_now(wait)?))?;
    }
    match life {
        Some(life) => add(token, "--expires", &Caveat::Expires(from_now(life)?)),
        None => Ok(token),
    }
}

fn add(token: Token, option: &str, caveat: &Caveat<'_>) -> Result<Token, Failure> {
    token.attenuate(caveat).map_err(|error| wrong(option, error))
}

fn wrong(option: &str, error: TokenError) -> Failure {
    let what = match error {
        TokenError::Malformed(what) => what.to_owned(),
        other => other.to_string(),
    };
    Failure::bad_config(format!("{option}: {what}"))
}

/// The second of Unix time in which this much time will have passed.
fn from_now(wait: Duration) -> Result<u64, Failure> {
    let whole = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    Ok(super::now()?.saturating_add(whole))
}

fn print_token(token: &Token) -> Result<(), Failure> {
    let mut line = token.encode();
    line.push('\n');
    print(&line)
}

fn random_id() -> Result<TokenId, Failure> {
    let mut bytes = [0; TokenId::LEN];
    fill(&mut bytes)?;
    Ok(TokenId::new(bytes))
}

fn fill(bytes: &mut [u8]) -> Result<(), Failure> {
    rand::fill(bytes).map_err(|_| {
        Failure::failed("the system's random number source failed")
            .help("check that getrandom(2) is permitted")
    })
}
