//! What can be said to `omnigate pack`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use packs::Coord;
use types::ObjectId;

#[derive(Debug, Subcommand)]
pub(crate) enum PackCommand {
    /// Verify packs as a node does when it mounts them; exit code 1 if one is refused.
    ///
    /// Accepts PMTiles and MBTiles, which are recognised by their content. Writes nothing.
    Verify(VerifyArgs),
    /// Show a pack's metadata, or one of its tiles.
    Inspect(InspectArgs),
    /// Make a pack.
    Make(MakeArgs),
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// The packs to verify.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The expected hash of the pack: `b3:` and 64 hexadecimal digits. For one pack only.
    #[arg(long, value_name = "B3")]
    pub(crate) id: Option<ObjectId>,
    /// The key that must have signed the packs: an Ed25519 public key in PEM. Signatures are beside the packs, in
    /// FILE.sig.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// The pack to show.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show this tile, as in 3/4/2: zoom, column, row from the north.
    #[arg(long, value_name = "Z/X/Y", value_parser = coord)]
    pub(crate) tile: Option<Coord>,
    /// Write the tile's bytes to this file, as they are stored in the pack.
    #[arg(long, value_name = "FILE", requires = "tile")]
    pub(crate) save: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MakeArgs {
    /// The file to write; a name that ends in .mbtiles makes MBTiles, any other PMTiles.
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Draw an invented world, as a demonstration.
    #[arg(long, required = true)]
    pub(crate) demo: bool,
    /// The highest zoom level. Each level has four times as many tiles as the one before; levels up to 5 have 1365
    /// tiles.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=8))]
    pub(crate) zoom: u8,
    /// Replace an existing file.
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
