//! What can be said to `omnigate pack`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use packs::Coord;
use types::ObjectId;

#[derive(Debug, Subcommand)]
pub(crate) enum PackCommand {
    /// Check packs as a node would when it mounts them; exit code 1 if one is refused.
    ///
    /// PMTiles and MBTiles, told apart by their content. Writes nothing.
    Verify(VerifyArgs),
    /// Show what a pack says of itself, or one of its tiles.
    Inspect(InspectArgs),
    /// Make a pack.
    Make(MakeArgs),
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The packs.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// What the pack has to be: `b3:` and 64 hexadecimal digits. For one pack only.
    #[arg(long, value_name = "B3")]
    pub(crate) id: Option<ObjectId>,
    /// Who has to have signed the packs: an Ed25519 public key in PEM. Signatures are beside the packs, in FILE.sig.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The pack.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show this tile, as in 3/4/2: zoom, column, row from the north.
    #[arg(long, value_name = "Z/X/Y", value_parser = coord)]
    pub(crate) tile: Option<Coord>,
    /// Write the tile's bytes to this file, as they are in the pack.
    #[arg(long, value_name = "FILE", requires = "tile")]
    pub(crate) save: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MakeArgs {
    /// Where to write it; a name that ends in .mbtiles makes MBTiles, any other PMTiles.
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// A drawn world that does not exist, to have something to look at.
    #[arg(long, required = true)]
    pub(crate) demo: bool,
    /// The highest zoom: each has four times as many tiles as the one before, 1365 up to 5.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=8))]
    pub(crate) zoom: u8,
    /// Replace a file that is already there.
    #[arg(long)]
    pub(crate) force: bool,
}

fn coord(text: &str) -> Result<Coord, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let [z, x, y] = parts[..] else { return Err("write zoom, column and row, such as 3/4/2".to_owned()) };
    let read = || Coord::new(z.parse().ok()?, x.parse().ok()?, y.parse().ok()?);
    read().ok_or_else(|| {
        "there is no such tile: columns and rows are below 2 to the power of the zoom".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_three_numbers_that_exist() {
        assert_eq!(coord("3/4/2"), Ok(Coord::new(3, 4, 2).expect("a tile")));
        for wrong in ["", "3", "3/4", "3/4/2/1", "3/8/0", "32/0/0", "a/b/c", "-1/0/0"] {
            assert!(coord(wrong).is_err(), "{wrong}");
        }
    }
}
