//! `omnigate token keygen`, `mint` and `attenuate`.

use std::{path::Path, time::Duration};

use aws_lc_rs::rand;
use captoken::{
    Caveat, Class, Grant, NameList, RootKey, SECRET_LEN, Token, TokenError, TokenId, TopicRight, key_text,
};
use ron_transport::files;
use svc_gateway::load_root_key;
use topics::PatternList;
use zeroize::Zeroizing;

use super::{
    args::{AttenuateArgs, AuditArgs, Conditions, MintArgs},
    trail,
};
use crate::{commands::print, failure::Failure};

/// How long a token is good for if nobody says.
const USUAL_LIFE: Duration = Duration::from_secs(3600);

/// Writes a new key, and says which it is.
pub(super) fn keygen(path: &Path, audit: &AuditArgs) -> Result<(), Failure> {
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    fill(&mut secret[..])?;
    files::create_private(path, key_text(&secret).as_bytes()).map_err(Failure::failed)?;
    let id = RootKey::new(&secret).id();
    trail::note(audit.audit_log.as_deref(), "token keygen", &[("key", id.to_string())])?;
    print(&format!("wrote {}: key {id}; put the file first in auth.root_keys\n", path.display()))
}

/// Makes a token and prints it.
pub(super) fn mint(args: &MintArgs) -> Result<(), Failure> {
    let key = load_root_key(&args.key).map_err(Failure::failed)?;
    let id = args.id.map_or_else(random_id, Ok)?;
    let conditions = &args.conditions;
    let life = conditions.expires.or((!args.never_expires).then_some(USUAL_LIFE));
    let (scopes, mut texts) = (granted(conditions), Texts::of(conditions));
    let grant = Grant {
        class: conditions.class.map_or(Class::Authed, Class::from),
        scopes: names("--scope", &scopes)?,
    };
    let caveats = caveats(conditions, life, &mut texts)?;
    if conditions.tenant.is_none() {
        eprintln!("warning: whoever holds this token may act for every tenant; --tenant names one");
    }
    if grant.scopes.contains("overlay.join") && conditions.nodes.is_empty() {
        eprintln!(
            "warning: whoever holds this token may join the overlay as any node; --node names those it is for"
        );
    }
    let token = Token::mint(&key, id, &grant, &caveats).map_err(Failure::bad_config)?;
    let about = [
        ("token", id.to_string()),
        ("key", key.id().to_string()),
        ("tenant", conditions.tenant.clone().unwrap_or_else(|| "every tenant".to_owned())),
        ("class", grant.class.as_str().to_owned()),
        ("scopes", scopes.clone()),
        ("expires", expires(&caveats)),
    ];
    trail::note(args.audit.audit_log.as_deref(), "token mint", &about)?;
    print_token(&token)
}

/// The rights that a token is minted with: those that are named, and those that its topics are for.
fn granted(conditions: &Conditions) -> String {
    let mut scopes: Vec<&str> = conditions.scopes.iter().map(String::as_str).collect();
    for (topics, right) in
        [(&conditions.publish, TopicRight::Publish), (&conditions.subscribe, TopicRight::Subscribe)]
    {
        if !topics.is_empty() && !scopes.contains(&right.scope()) {
            scopes.push(right.scope());
        }
    }
    scopes.join(",")
}

/// When the token of these caveats expires, in seconds of Unix time; `never` if it does not.
fn expires(caveats: &[Caveat<'_>]) -> String {
    let at = caveats.iter().find_map(|caveat| match caveat {
        Caveat::Expires(at) => Some(at.to_string()),
        _ => None,
    });
    at.unwrap_or_else(|| "never".to_owned())
}

/// Adds conditions to a token and prints it.
pub(super) fn attenuate(args: &AttenuateArgs) -> Result<(), Failure> {
    let conditions = &args.conditions;
    let (scopes, mut texts) = (conditions.scopes.join(","), Texts::of(conditions));
    let mut caveats = caveats(conditions, conditions.expires, &mut texts)?;
    if !scopes.is_empty() {
        caveats.push(checked("--scope", Caveat::Scopes(names("--scope", &scopes)?))?);
    }
    caveats.extend(conditions.class.map(|class| Caveat::Class(class.into())));
    if caveats.is_empty() {
        return Err(
            Failure::bad_config("there is nothing to add").help("name a condition, such as --expires 5m")
        );
    }
    let narrowed = caveats.iter().try_fold(args.token.parse()?, Token::attenuate);
    print_token(&narrowed.map_err(Failure::failed)?)
}

/// What caveats point to, in the form that they have it.
struct Texts {
    methods: String,
    networks: Vec<u8>,
    nodes: Vec<u8>,
    publish: String,
    subscribe: String,
}

impl Texts {
    fn of(conditions: &Conditions) -> Self {
        Self {
            methods: conditions.methods.join(",").to_ascii_uppercase(),
            networks: Vec::new(),
            nodes: Vec::new(),
            publish: conditions.publish.join(","),
            subscribe: conditions.subscribe.join(","),
        }
    }
}

/// The conditions that mean the same at minting and after.
fn caveats<'a>(
    conditions: &'a Conditions,
    life: Option<Duration>,
    texts: &'a mut Texts,
) -> Result<Vec<Caveat<'a>>, Failure> {
    let mut caveats = Vec::new();
    if let Some(tenant) = &conditions.tenant {
        caveats.push(checked("--tenant", Caveat::Tenant(tenant))?);
    }
    if let Some(path) = &conditions.path {
        caveats.push(checked("--path", Caveat::Path(path))?);
    }
    if !texts.methods.is_empty() {
        caveats.push(checked("--method", Caveat::Methods(names("--method", &texts.methods)?))?);
    }
    if !conditions.networks.is_empty() {
        let networks = Caveat::networks(&conditions.networks, &mut texts.networks);
        caveats.push(checked("--ip", networks.map_err(|error| wrong("--ip", error))?)?);
    }
    if !conditions.nodes.is_empty() {
        let nodes = Caveat::nodes(&conditions.nodes, &mut texts.nodes);
        caveats.push(checked("--node", nodes.map_err(|error| wrong("--node", error))?)?);
    }
    if !texts.publish.is_empty() {
        let listed = patterns("--publish", &texts.publish)?;
        caveats.push(checked("--publish", Caveat::Publish(listed))?);
    }
    if !texts.subscribe.is_empty() {
        let listed = patterns("--subscribe", &texts.subscribe)?;
        caveats.push(checked("--subscribe", Caveat::Subscribe(listed))?);
    }
    if let Some(wait) = conditions.not_before {
        caveats.push(Caveat::NotBefore(from_now(wait)?));
    }
    if let Some(life) = life {
        caveats.push(Caveat::Expires(from_now(life)?));
    }
    Ok(caveats)
}

fn names<'a>(option: &str, list: &'a str) -> Result<NameList<'a>, Failure> {
    NameList::new(list).map_err(|error| wrong(option, error))
}

fn patterns<'a>(option: &str, list: &'a str) -> Result<PatternList<'a>, Failure> {
    PatternList::new(list).map_err(|error| Failure::bad_config(format!("{option}: {error}; at most 16")))
}

/// The caveat, if a token can hold it.
fn checked<'a>(option: &str, caveat: Caveat<'a>) -> Result<Caveat<'a>, Failure> {
    caveat.check().map(|()| caveat).map_err(|error| wrong(option, error))
}

fn wrong(option: &str, error: TokenError) -> Failure {
    let what = match error {
        TokenError::Malformed(what) => what,
        _ => "there is no room for more than 255 characters",
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
