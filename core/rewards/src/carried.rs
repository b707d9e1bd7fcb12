//! Amounts below the minimum payout that wait for the next epoch, and the file that lists them.

use types::{ActorId, ObjectId};

use crate::{Amount, DocumentError, Int, Json, json, json::fields::Fields};

/// What actors are still owed from epochs before, in the order of actors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    amounts: Vec<(ActorId, Amount)>,
    file: CarriedFile,
}

/// The list of carried amounts, by its hash and its sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedFile {
    /// What the lines add up to.
    pub amount: Amount,
    /// Number of lines in the file.
    pub lines: Int,
    /// The hash of the file.
    pub hash: ObjectId,
}

impl Default for CarriedFile {
    /// The file without lines.
    fn default() -> Self {
        let hash = ObjectId::new(*blake3::hash(&[]).as_bytes());
        Self { amount: Amount::ZERO, lines: Int::from(0), hash }
    }
}

impl Carried {
    /// The most actors that amounts are carried for.
    pub const MAX_LINES: usize = 10_000_000;

    /// Collects amounts that are carried over, by actor.
    ///
    /// # Errors
    /// [`DocumentError::Wrong`], if they are not in the order of actors, one of them is zero or of the crowd called `other`,
    /// or they add up to more than an amount can be.
    pub fn new(amounts: Vec<(ActorId, Amount)>) -> Result<Self, DocumentError> {
        let wrong = DocumentError::Wrong("carried");
        let in_order = amounts.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let senseless =
            |(actor, amount): &(ActorId, Amount)| *amount == Amount::ZERO || *actor == ActorId::other();
        if !in_order || amounts.len() > Self::MAX_LINES || amounts.iter().any(senseless) {
            return Err(wrong);
        }
        let sum = amounts.iter().try_fold(Amount::ZERO, |sum, (_, amount)| sum.checked_add(*amount));
        let mut hasher = blake3::Hasher::new();
        let mut line = Vec::new();
        for (actor, amount) in &amounts {
            line.clear();
            write(&mut line, actor, *amount);
            hasher.update(&line);
        }
        let lines = u64::try_from(amounts.len()).ok().and_then(Int::new).ok_or(wrong.clone())?;
        let hash = ObjectId::new(*hasher.finalize().as_bytes());
        let file = CarriedFile { amount: sum.ok_or(wrong)?, lines, hash };
        Ok(Self { amounts, file })
    }

    /// Reads one line of the file, without its line feed.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or not such a line.
    pub fn read_line(line: &[u8]) -> Result<(ActorId, Amount), DocumentError> {
        let mut fields = Fields::of(Json::read_canonical(line)?, "carried")?;
        let read = (fields.text("actor", ActorId::new)?, fields.parsed("amount")?);
        fields.end()?;
        Ok(read)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`DocumentError`], if a line is none, or the lines are not in order.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let Some(lines) = bytes.strip_suffix(b"\n") else {
            return if bytes.is_empty() { Ok(Self::default()) } else { Err(DocumentError::Wrong("carried")) };
        };
        let lines = lines.split(|byte| *byte == b'\n');
        Self::new(lines.map(Self::read_line).collect::<Result<_, _>>()?)
    }

    /// The file: one line for each actor.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.amounts.iter().for_each(|(actor, amount)| write(&mut out, actor, *amount));
        out
    }

    /// The amounts, in the order of actors.
    #[must_use]
    pub fn amounts(&self) -> &[(ActorId, Amount)] {
        &self.amounts
    }

    /// The file by its hash and its sum.
    #[must_use]
    pub const fn file(&self) -> &CarriedFile {
        &self.file
    }
}

fn write(out: &mut Vec<u8>, actor: &ActorId, amount: Amount) {
    out.extend_from_slice(b"{\"actor\":");
    json::write_text(out, actor.as_str());
    out.extend_from_slice(format!(",\"amount\":\"{amount}\"}}\n").as_bytes());
}

impl CarriedFile {
    pub(crate) fn json(&self) -> Json {
        Json::map([
            ("amount", Json::text(self.amount)),
            ("hash", Json::text(self.hash)),
            ("lines", Json::Int(self.lines)),
        ])
    }

    pub(crate) fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of(json, "carried")?;
        let file = Self {
            amount: fields.parsed("amount")?,
            lines: fields.int("lines")?,
            hash: fields.parsed("hash")?,
        };
        fields.end()?;
        Ok(file)
    }
}
