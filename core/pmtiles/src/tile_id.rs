//! Tile ids: places along one Hilbert curve per zoom, one zoom after the other.

use std::fmt;

/// The highest zoom whose tiles have ids.
pub const MAX_ZOOM: u8 = 31;

/// The zoom, column and row of a tile, with rows counted from the north.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coord {
    z: u8,
    x: u32,
    y: u32,
}

/// A tile's number: neighbours on the map mostly have neighbouring ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TileId(u64);

impl Coord {
    /// The tile at these coordinates, if there is one: `z` up to [`MAX_ZOOM`], `x` and `y` below 2 to the power of `z`.
    #[must_use]
    pub const fn new(z: u8, x: u32, y: u32) -> Option<Self> {
        if z <= MAX_ZOOM && (x as u64) < side(z) && (y as u64) < side(z) {
            Some(Self { z, x, y })
        } else {
            None
        }
    }

    /// Returns the zoom level.
    #[must_use]
    pub const fn z(self) -> u8 {
        self.z
    }

    /// The column, from the west.
    #[must_use]
    pub const fn x(self) -> u32 {
        self.x
    }

    /// The row, from the north.
    #[must_use]
    pub const fn y(self) -> u32 {
        self.y
    }

    /// The row counted from the south, as MBTiles and the Tile Map Service count.
    #[must_use]
    pub const fn tms_row(self) -> u32 {
        // Both are below 2^31, and y is at most the other.
        ((1_u32 << self.z) - 1) - self.y
    }

    /// Returns the tile's id on the Hilbert curve.
    #[must_use]
    pub const fn id(self) -> TileId {
        let (mut x, mut y, mut along) = (self.x, self.y, 0_u64);
        let mut bit = self.z;
        while bit > 0 {
            bit -= 1;
            let quadrant = ((x >> bit) & 1, (y >> bit) & 1);
            along = along << 2 | visited(quadrant);
            (x, y) = turned(x, y, bit, quadrant);
        }
        TileId(first(self.z) + along)
    }
}

impl fmt::Display for Coord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.z, self.x, self.y)
    }
}

impl TileId {
    /// The last tile of the highest zoom.
    pub const MAX: Self = Self(first(MAX_ZOOM + 1) - 1);

    /// The tile with this number, if there is one.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// Returns the id as a number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The zoom of the tile.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a logarithm of 64 bits, halved")]
    pub const fn zoom(self) -> u8 {
        // first(z) is (4^z - 1) / 3, so this is z and what is behind its point.
        ((3 * self.0 + 1).ilog2() / 2) as u8
    }

    /// Returns the tile's coordinates.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "two bits")]
    pub const fn coord(self) -> Coord {
        let z = self.zoom();
        let along = self.0 - first(z);
        let (mut x, mut y) = (0_u32, 0_u32);
        let mut bit = 0;
        while bit < z {
            let quadrant = match (along >> (2 * bit)) as u8 & 3 {
                0 => (0, 0),
                1 => (0, 1),
                2 => (1, 1),
                _ => (1, 0),
            };
            (x, y) = turned(x, y, bit, quadrant);
            x |= quadrant.0 << bit;
            y |= quadrant.1 << bit;
            bit += 1;
        }
        Coord { z, x, y }
    }
}

/// The tiles along one side of the world.
const fn side(z: u8) -> u64 {
    1 << z
}

/// The number of the first tile of a zoom: how many there are in those before it.
#[expect(clippy::cast_possible_truncation, reason = "the argument is at most 32, so the result has 63 bits")]
const fn first(z: u8) -> u64 {
    // 4^32 does not fit, but a third of it does.
    ((1_u128 << (2 * z)) / 3) as u64
}

/// When the curve comes to a quadrant: first, second, third or last.
const fn visited(quadrant: (u32, u32)) -> u64 {
    match quadrant {
        (0, 0) => 0,
        (0, _) => 1,
        (_, 0) => 3,
        _ => 2,
    }
}

/// The lower bits of a place as the curve inside its quadrant sees them: the first and the last quadrant lie on their
/// sides. Doing it twice undoes it.
const fn turned(x: u32, y: u32, bits: u8, quadrant: (u32, u32)) -> (u32, u32) {
    let mask = (1_u32 << bits) - 1;
    let (x, y) = (x & mask, y & mask);
    match quadrant {
        (0, 0) => (y, x),
        (_, 0) => (mask - y, mask - x),
        _ => (x, y),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests: a failure may panic")]
mod tests {
    use super::*;

    /// The beginning of the curve, as the specification draws it.
    #[test]
    fn the_first_tiles_have_the_numbers_of_the_specification() {
        let table = [
            ((0, 0, 0), 0),
            ((1, 0, 0), 1),
            ((1, 0, 1), 2),
            ((1, 1, 1), 3),
            ((1, 1, 0), 4),
            ((2, 0, 0), 5),
            ((2, 1, 0), 6),
            ((2, 1, 1), 7),
            ((2, 0, 1), 8),
            ((2, 0, 2), 9),
            ((12, 3423, 1763), 19_078_479),
        ];
        for ((z, x, y), number) in table {
            let coord = Coord::new(z, x, y).unwrap();
            assert_eq!(coord.id().number(), number, "{coord}");
            assert_eq!(coord.id().coord(), coord);
        }
    }

    #[test]
    fn each_step_along_the_curve_goes_to_a_neighbour() {
        for z in 1..=7 {
            let numbers = first(z)..first(z + 1);
            let coords: Vec<_> = numbers.map(|number| TileId::new(number).unwrap().coord()).collect();
            assert!(coords.iter().all(|coord| coord.z() == z));
            for pair in coords.windows(2) {
                let [a, b] = pair else { unreachable!("windows of two") };
                assert_eq!(a.x.abs_diff(b.x) + a.y.abs_diff(b.y), 1, "{a} to {b}");
            }
        }
    }

    #[test]
    fn there_is_no_tile_beyond_the_last_column_row_zoom_or_number() {
        assert!(Coord::new(0, 0, 0).is_some() && Coord::new(0, 1, 0).is_none());
        assert!(Coord::new(5, 31, 31).is_some());
        assert!(Coord::new(5, 32, 0).is_none() && Coord::new(5, 0, 32).is_none());
        let last = (1 << 31) - 1;
        assert!(Coord::new(31, last, last).is_some() && Coord::new(31, last + 1, 0).is_none());
        assert!(Coord::new(32, 0, 0).is_none() && Coord::new(255, 0, 0).is_none());
        let end = TileId::MAX;
        assert_eq!(end.coord(), Coord::new(31, last, 0).unwrap());
        assert_eq!(end.coord().id(), end);
        assert!(TileId::new(end.number() + 1).is_none() && TileId::new(u64::MAX).is_none());
    }

    #[test]
    fn each_zoom_begins_where_the_one_before_it_ended() {
        for z in 0..=MAX_ZOOM {
            assert_eq!(TileId::new(first(z)).unwrap().coord(), Coord::new(z, 0, 0).unwrap());
            assert_eq!(TileId::new(first(z)).unwrap().zoom(), z);
            assert_eq!(TileId::new(first(z + 1) - 1).unwrap().zoom(), z);
        }
    }

    #[test]
    fn rows_from_the_south_are_rows_from_the_north_upside_down() {
        assert_eq!(Coord::new(11, 327, 791).unwrap().tms_row(), 1256);
        assert_eq!(Coord::new(0, 0, 0).unwrap().tms_row(), 0);
        assert_eq!(Coord::new(31, 0, 0).unwrap().tms_row(), (1 << 31) - 1);
    }
}
