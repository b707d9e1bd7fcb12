//! Heights on a sphere, from noise: the same at the same place, and continuous all around.

/// Layers of noise, each with twice the detail of the one before.
const OCTAVES: u32 = 8;

/// The height of a place on the unit sphere: about -1 to 1, and above 0 on land.
pub(super) fn height(x: f64, y: f64, z: f64) -> f64 {
    // Bending the place by noise makes coasts that wind.
    let bend = |seed: f64| 0.35 * noise(1.7 * x + seed, 1.7 * y - seed, 1.7 * z + 3.0 * seed);
    let (x, y, z) = (x + bend(11.3), y + bend(23.7), z + bend(37.1));
    let (mut sum, mut frequency, mut amplitude) = (0.0, 1.6, 0.75);
    for _ in 0..OCTAVES {
        sum += amplitude * noise(frequency * x, frequency * y, frequency * z);
        frequency *= 2.03;
        amplitude *= 0.52;
    }
    sum - 0.05
}

/// Gradient noise: zero at whole numbers, smooth between them.
fn noise(x: f64, y: f64, z: f64) -> f64 {
    let (fx, fy, fz) = (x.floor(), y.floor(), z.floor());
    let (dx, dy, dz) = (x - fx, y - fy, z - fz);
    let cell = [fx, fy, fz].map(whole);
    let corner = |i: i32, j: i32, k: i32| {
        let hash = hash(cell[0] + i, cell[1] + j, cell[2] + k);
        slope(hash, dx - f64::from(i), dy - f64::from(j), dz - f64::from(k))
    };
    let (u, v, w) = (ease(dx), ease(dy), ease(dz));
    let mix = |a: f64, b: f64, share: f64| a + (b - a) * share;
    let plane = |k: i32| {
        let (south, north) =
            (mix(corner(0, 0, k), corner(1, 0, k), u), mix(corner(0, 1, k), corner(1, 1, k), u));
        mix(south, north, v)
    };
    mix(plane(0), plane(1), w)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "places on the sphere are a few hundred cells from its centre"
)]
fn whole(number: f64) -> i32 {
    number as i32
}

/// Flat at both ends, so that no edge of a cell is seen.
fn ease(t: f64) -> f64 {
    t * t * t * (t * (6.0 * t - 15.0) + 10.0)
}

/// One of twelve directions, along the edges of a cube.
fn slope(hash: u32, x: f64, y: f64, z: f64) -> f64 {
    let (a, b) = match hash % 3 {
        0 => (x, y),
        1 => (y, z),
        _ => (z, x),
    };
    let (a, b) = (if hash & 16 == 0 { a } else { -a }, if hash & 32 == 0 { b } else { -b });
    a + b
}

fn hash(x: i32, y: i32, z: i32) -> u32 {
    let [x, y, z] = [x, y, z].map(i32::cast_unsigned);
    let mut hash =
        x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca77) ^ z.wrapping_mul(0xc2b2_ae3d) ^ 0x51ed_270b;
    for factor in [0x2c1b_3c6d_u32, 0x297a_2d39] {
        hash = (hash ^ hash >> 15).wrapping_mul(factor);
    }
    hash ^ hash >> 16
}
