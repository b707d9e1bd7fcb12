//! One actor's line and the few hashes that tie it to a run.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{
    AllocationLine, Digest, DocumentError, Epoch, Int, Json, Manifest, digest::Domain, json::fields::Fields,
    root_of_path,
};

/// The proof that a line is part of a run: below 2 KiB for a million actors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The epoch of the run.
    pub epoch: Epoch,
    /// The commitment of the run.
    pub commitment: Digest,
    /// The line that is proved.
    pub allocation: AllocationLine,
    /// Index of the line, counted from zero.
    pub index: Int,
    /// Number of lines in the run.
    pub lines: Int,
    /// The root of the tree over all lines.
    pub root: Digest,
    /// The hashes from the line to the root.
    pub path: Vec<Digest>,
}

/// The reason why a proof is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The path does not lead from the line to the root.
    #[error("the path does not lead from the line to the root")]
    Path,
    /// It is about another run than the manifest.
    #[error("it is about another run")]
    OtherRun,
}

impl Proof {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-proof/1";

    /// Whether the line is part of the run that `manifest` describes.
    ///
    /// # Errors
    /// [`ProofError`] if not.
    pub fn check(&self, manifest: &Manifest) -> Result<(), ProofError> {
        let file = &manifest.allocations;
        let same = self.epoch == manifest.epoch
            && self.commitment == manifest.commitment()
            && self.root == file.root
            && self.lines == file.lines;
        if !same {
            return Err(ProofError::OtherRun);
        }
        self.check_path()
    }

    /// Whether the path leads from the line to the root that the proof itself names. Who trusts a root, compares it.
    ///
    /// # Errors
    /// [`ProofError::Path`] if not.
    pub fn check_path(&self) -> Result<(), ProofError> {
        let leaf = Domain::LEAF.hash(&self.allocation.to_bytes());
        let root = root_of_path(leaf, self.index.get(), self.lines.get(), &self.path);
        if root == Some(self.root) { Ok(()) } else { Err(ProofError::Path) }
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let path: Vec<u8> = self.path.iter().flat_map(|digest| *digest.as_bytes()).collect();
        let allocation = Json::read(&self.allocation.to_bytes()).expect("lines are JSON");
        Json::map([
            ("allocation", allocation),
            ("commitment", Json::text(self.commitment)),
            ("epoch", Json::Int(self.epoch.int())),
            ("format", Json::text(Self::FORMAT)),
            ("index", Json::Int(self.index)),
            ("lines", Json::Int(self.lines)),
            ("path", Json::text(URL_SAFE_NO_PAD.encode(path))),
            ("root", Json::text(self.root)),
        ])
        .to_canonical()
    }

    /// Reads a document. Nothing is proven yet: see [`Proof::check`].
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or lacks something.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(Json::read_canonical(bytes)?, Self::FORMAT)?;
        let proof = Self {
            epoch: fields.int("epoch")?.into(),
            commitment: fields.parsed("commitment")?,
            allocation: AllocationLine::from_json(fields.take("allocation")?)?,
            index: fields.int("index")?,
            lines: fields.int("lines")?,
            root: fields.parsed("root")?,
            path: fields.text("path", read_path)?,
        };
        fields.end()?;
        Ok(proof)
    }
}

fn read_path(text: &str) -> Result<Vec<Digest>, ()> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| ())?;
    let (digests, rest) = bytes.as_chunks::<32>();
    // No tree of fewer than 2⁵³ lines is deeper.
    let fits = rest.is_empty() && digests.len() <= 53;
    if fits { Ok(digests.iter().copied().map(Digest::new).collect()) } else { Err(()) }
}
