//! The colours of the world: by height and light, each with a paler one for lines.

/// Added to a colour's number for its paler one.
pub(super) const LINE: u8 = 128;

/// Colour index of letters.
pub(super) const INK: u8 = 127;

/// Colour index of the halo around letters.
pub(super) const HALO: u8 = 126;

/// Steps of light.
const LIGHTS: usize = 6;

/// From which height on which colour holds, from the depth of the sea to the peaks.
const BANDS: [(f64, [u8; 3]); 20] = [
    (f64::NEG_INFINITY, [24, 58, 96]),
    (-0.50, [29, 69, 110]),
    (-0.38, [36, 82, 126]),
    (-0.27, [45, 97, 142]),
    (-0.18, [57, 113, 157]),
    (-0.11, [73, 130, 171]),
    (-0.055, [95, 150, 185]),
    (-0.02, [126, 175, 200]),
    (0.0, [226, 212, 163]),
    (0.014, [176, 193, 122]),
    (0.05, [146, 178, 105]),
    (0.10, [121, 162, 92]),
    (0.16, [104, 146, 83]),
    (0.22, [127, 148, 85]),
    (0.28, [152, 148, 94]),
    (0.35, [160, 133, 92]),
    (0.42, [145, 115, 86]),
    (0.49, [132, 110, 96]),
    (0.56, [168, 158, 152]),
    (0.64, [240, 240, 243]),
];

/// The colours by number.
pub(super) struct Palette {
    colors: Vec<[u8; 3]>,
}

impl Palette {
    pub(super) fn new() -> Self {
        let mut colors = vec![[0; 3]; 256];
        for (number, (_, base)) in BANDS.iter().flat_map(|band| [band; LIGHTS]).enumerate() {
            let light = (number % LIGHTS) as f64 / (LIGHTS - 1) as f64 * 2.0 - 1.0;
            // The sea has little relief to show.
            let strength = if number / LIGHTS < 8 { 0.06 } else { 0.22 };
            let lit = base.map(|part| channel(f64::from(part) * (1.0 + strength * light)));
            colors[number] = lit;
            colors[number + usize::from(LINE)] =
                lit.map(|part| channel(f64::from(part) * 0.72 + 255.0 * 0.28));
        }
        colors[usize::from(INK)] = [255, 255, 255];
        colors[usize::from(HALO)] = [32, 44, 60];
        Self { colors }
    }

    pub(super) fn colors(&self) -> &[[u8; 3]] {
        &self.colors
    }

    /// The number of the colour of a place with this height and light, -1 to 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the light is between -1 and 1, and there are fewer than 128 colours"
    )]
    pub(super) fn color(&self, height: f64, light: f64) -> u8 {
        let band = BANDS.iter().rposition(|(from, _)| height >= *from).unwrap_or(0);
        let light = ((light + 1.0) / 2.0 * (LIGHTS - 1) as f64).round() as usize;
        (band * LIGHTS + light.min(LIGHTS - 1)) as u8
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a byte")]
fn channel(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}
