//! A world of islands: heights from noise on a sphere, drawn as map tiles with a grid and their numbers.

mod font;
mod noise;
mod palette;
mod png;

use std::f64::consts::PI;

use packs::Coord;

use palette::{HALO, INK, LINE, Palette};

/// Pixels along a side of a tile.
const SIDE: usize = 256;

/// Pixels between two places whose height is computed; those between are interpolated.
const STRIDE: usize = 4;

/// Heights along a side, with one beyond each edge, so that slopes are the same on both sides of it.
const HEIGHTS: usize = SIDE / STRIDE + 3;

/// Draws the tiles of an invented world.
pub(super) struct World {
    palette: Palette,
    heights: Vec<f64>,
    pixels: Vec<u8>,
}

/// Height and slope at a place.
#[derive(Clone, Copy)]
struct Ground {
    height: f64,
    /// How much the light from the north-west brightens it: -1 to 1.
    light: f64,
}

impl World {
    pub(super) fn new() -> Self {
        Self { palette: Palette::new(), heights: vec![0.0; HEIGHTS * HEIGHTS], pixels: vec![0; SIDE * SIDE] }
    }

    /// The tile as a PNG.
    pub(super) fn tile(&mut self, tile: Coord) -> Vec<u8> {
        self.raise(tile);
        self.paint(tile);
        self.draw_grid(tile);
        self.write(&tile.to_string(), 7, 7);
        png::encode(SIDE, self.palette.colors(), &self.pixels)
    }

    /// Computes the heights.
    fn raise(&mut self, tile: Coord) {
        for row in 0..HEIGHTS {
            let lat = latitude(tile, place(row));
            for column in 0..HEIGHTS {
                let lon = longitude(tile, place(column));
                let (east, north, up) = (lon.cos() * lat.cos(), lon.sin() * lat.cos(), lat.sin());
                self.heights[row * HEIGHTS + column] = noise::height(east, north, up);
            }
        }
    }

    fn paint(&mut self, tile: Coord) {
        let steepness = 2_f64.powf(0.75 * f64::from(tile.z())) * 9.0;
        for y in 0..SIDE {
            for x in 0..SIDE {
                let ground = self.ground(x, y, steepness);
                self.pixels[y * SIDE + x] = self.palette.color(ground.height, ground.light);
            }
        }
    }

    /// Between four heights.
    fn ground(&self, x: usize, y: usize, steepness: f64) -> Ground {
        let (column, row) = (x / STRIDE + 1, y / STRIDE + 1);
        let within = |pixel: usize| (pixel % STRIDE) as f64 / STRIDE as f64;
        let (right, down) = (within(x), within(y));
        let corner = |right: usize, down: usize| self.corner(column + right, row + down, steepness);
        let mix = |a: Ground, b: Ground, share: f64| Ground {
            height: a.height + (b.height - a.height) * share,
            light: a.light + (b.light - a.light) * share,
        };
        let (top, bottom) = (mix(corner(0, 0), corner(1, 0), right), mix(corner(0, 1), corner(1, 1), right));
        mix(top, bottom, down)
    }

    fn corner(&self, column: usize, row: usize, steepness: f64) -> Ground {
        let height = |column: usize, row: usize| self.heights[row * HEIGHTS + column];
        let eastward = height(column + 1, row) - height(column - 1, row);
        let southward = height(column, row + 1) - height(column, row - 1);
        let light = ((eastward + southward) * steepness).clamp(-1.0, 1.0);
        Ground { height: height(column, row), light }
    }

    /// Meridians, parallels, and the edges of the tile.
    fn draw_grid(&mut self, tile: Coord) {
        let step = grid_step(tile.z()).to_radians();
        let crosses = |from: f64, to: f64| (from / step).floor() != (to / step).floor();
        let side = |at: usize| at as f64 / SIDE as f64;
        for at in 0..SIDE {
            let meridian = crosses(longitude(tile, side(at)), longitude(tile, side(at + 1)));
            let parallel = crosses(latitude(tile, side(at)), latitude(tile, side(at + 1)));
            for along in 0..SIDE {
                if meridian || at == 0 {
                    self.pixels[along * SIDE + at] |= LINE;
                }
                if parallel || at == 0 {
                    self.pixels[at * SIDE + along] |= LINE;
                }
            }
        }
    }

    /// Writes light letters on a dark seam, so that they can be read on anything.
    fn write(&mut self, text: &str, left: usize, top: usize) {
        for (color, reach) in [(HALO, 1), (INK, 0)] {
            for (x, y) in font::dots(text) {
                for (dx, dy) in (0..font::DOT + 2 * reach)
                    .flat_map(|dx| (0..font::DOT + 2 * reach).map(move |dy| (dx, dy)))
                {
                    let (x, y) = (left + x + dx - reach, top + y + dy - reach);
                    if x < SIDE && y < SIDE {
                        self.pixels[y * SIDE + x] = color;
                    }
                }
            }
        }
    }
}

/// Where a height is on its tile, as a part of its side. The first and the last are beyond the edge.
fn place(index: usize) -> f64 {
    (index as f64 - 1.0) * STRIDE as f64 / SIDE as f64
}

/// In radians, at a part of a tile's width.
fn longitude(tile: Coord, part: f64) -> f64 {
    ((f64::from(tile.x()) + part) / tiles(tile) * 2.0 - 1.0) * PI
}

/// In radians, at a part of a tile's height: the Mercator projection, backwards.
fn latitude(tile: Coord, part: f64) -> f64 {
    ((1.0 - (f64::from(tile.y()) + part) / tiles(tile) * 2.0) * PI).sinh().atan()
}

/// Tiles around the world.
fn tiles(tile: Coord) -> f64 {
    f64::from(1_u32 << tile.z())
}

/// Degrees between two lines: a few of them on each tile.
fn grid_step(zoom: u8) -> f64 {
    match zoom {
        0 | 1 => 30.0,
        2 => 15.0,
        3 => 10.0,
        4 => 5.0,
        5 => 2.0,
        6 => 1.0,
        7 => 0.5,
        _ => 0.25,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coord(z: u8, x: u32, y: u32) -> Coord {
        Coord::new(z, x, y).expect("a tile")
    }

    #[test]
    fn the_same_tile_is_drawn_the_same_way_again() {
        let mut world = World::new();
        let first = world.tile(coord(2, 1, 1));
        assert_ne!(world.tile(coord(2, 2, 1)), first);
        assert_eq!(world.tile(coord(2, 1, 1)), first);
        assert_eq!(World::new().tile(coord(2, 1, 1)), first);
    }

    #[test]
    fn neighbours_agree_about_their_common_edge() {
        let (mut west, mut east) = (World::new(), World::new());
        west.raise(coord(3, 2, 3));
        east.raise(coord(3, 3, 3));
        for row in 0..HEIGHTS {
            let at = |world: &World, column: usize| world.heights[row * HEIGHTS + column];
            // The last column within one is the first within the other, and so are those beyond.
            for (last, first) in [(HEIGHTS - 2, 1), (HEIGHTS - 1, 2), (HEIGHTS - 3, 0)] {
                assert!((at(&west, last) - at(&east, first)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn the_world_has_land_and_sea() {
        let mut world = World::new();
        world.raise(coord(0, 0, 0));
        let land = world.heights.iter().filter(|height| **height > 0.0).count() as f64;
        let share = land / world.heights.len() as f64;
        assert!((0.2..0.6).contains(&share), "{share}");
    }

    #[test]
    fn the_projection_ends_where_maps_do() {
        let world = coord(0, 0, 0);
        assert!((longitude(world, 0.0) + PI).abs() < 1e-12 && (longitude(world, 1.0) - PI).abs() < 1e-12);
        assert!((latitude(world, 0.0).to_degrees() - 85.051_128_779).abs() < 1e-6);
        assert!(latitude(world, 0.5).abs() < 1e-12);
    }
}
