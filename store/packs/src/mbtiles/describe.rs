//! What an MBTiles pack says of itself.

use decode::Coding;
use pmtiles::{TileId, TileType};
use rusqlite::types::ValueRef;
use serde_json::{Map, Value};

use crate::{
    error::{MbtilesError, MountError, PackError},
    info::Described,
    mbtiles::{ALL_METADATA, Database, connection::Connection, table::Table},
    sniff,
};

/// The maximum number of rows of metadata, of whatever kind: a view can have rows without end in which there is nothing.
const MAX_ROWS: usize = 1000;

/// As far as the Mercator projection reaches.
const WORLD: [f64; 4] = [-180.0, -85.051_128_7, 180.0, 85.051_128_7];

impl Database {
    /// Reads the metadata, and completes them by the tiles.
    pub(crate) fn describe(&self, table: &Table) -> Result<Described, MountError> {
        let metadata = self.pool.with(|connection| self.metadata(connection))?;
        let mut notes = Vec::new();
        if table.ignored() > 0 {
            notes.push(format!("{} rows are empty or no tiles of their zoom", table.ignored()));
        }
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::trim);
        let tile_type = match text("format").and_then(tile_type) {
            Some(known) => known,
            None => self.sample(table)?.map_or(TileType::Other(0), |tile| sniff::tile_type(&tile)),
        };
        let zooms = zooms(table);
        let said = |key| text(key).and_then(|text| text.parse().ok());
        let (min_zoom, max_zoom) = (said("minzoom").unwrap_or(zooms.0), said("maxzoom").unwrap_or(zooms.1));
        if (min_zoom, max_zoom) != zooms {
            notes.push(format!(
                "the metadata say zooms {min_zoom} to {max_zoom}, and there are {} to {}",
                zooms.0, zooms.1
            ));
        }
        let (min_zoom, max_zoom) =
            if min_zoom <= max_zoom && max_zoom <= pmtiles::MAX_ZOOM { (min_zoom, max_zoom) } else { zooms };
        let bounds = text("bounds").and_then(bounds);
        if bounds.is_none() && text("bounds").is_some() {
            notes.push(
                "the bounds in the metadata make no sense and are taken for the whole world".to_owned(),
            );
        }
        Ok(Described {
            tiles: table.len() as u64,
            tile_type,
            coding: is_image(tile_type).then_some(Coding::Identity),
            min_zoom,
            max_zoom,
            bounds: bounds.unwrap_or(WORLD),
            center: text("center").and_then(center),
            metadata,
            notes,
        })
    }

    /// All rows; `json`, which is text with an object in it, is replaced by what is in that object.
    fn metadata(&self, connection: &Connection) -> Result<Map<String, Value>, MountError> {
        let mut statement = connection.query().prepare(ALL_METADATA).map_err(MbtilesError::from)?;
        let mut rows = statement.query(()).map_err(MbtilesError::from)?;
        let (mut metadata, mut bytes, mut seen) = (Map::new(), 0, 0);
        while let Some(row) = rows.next().map_err(MbtilesError::from)? {
            connection.next_row();
            seen += 1;
            if seen > MAX_ROWS {
                return Err(MbtilesError::MetadataSize.into());
            }
            let (Some(name), Some(value)) = (text(row.get_ref(0)), text(row.get_ref(1))) else { continue };
            bytes += name.len() + value.len();
            if bytes as u64 > self.limits.pmtiles.metadata_bytes {
                return Err(MbtilesError::MetadataSize.into());
            }
            if name == "json" {
                let inner: Map<String, Value> =
                    serde_json::from_str(&value).map_err(|error| MountError::Metadata(error.to_string()))?;
                metadata.extend(inner);
            } else {
                metadata.insert(name, Value::String(value));
            }
        }
        Ok(metadata)
    }

    fn sample(&self, table: &Table) -> Result<Option<Vec<u8>>, MountError> {
        let Some(tile) = table.tiles().next() else { return Ok(None) };
        self.read(tile.coord()).map_err(|error| match error {
            PackError::Io(error) => MountError::Read(error),
            _ => MountError::Changed,
        })
    }
}

/// Text, or a number as text.
fn text(value: rusqlite::Result<ValueRef<'_>>) -> Option<String> {
    match value.ok()? {
        ValueRef::Text(text) => str::from_utf8(text).ok().map(str::to_owned),
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Null | ValueRef::Blob(_) => None,
    }
}

fn tile_type(format: &str) -> Option<TileType> {
    match format.to_ascii_lowercase().as_str() {
        "png" | "image/png" => Some(TileType::Png),
        "jpg" | "jpeg" | "image/jpeg" => Some(TileType::Jpeg),
        "webp" | "image/webp" => Some(TileType::Webp),
        "avif" | "image/avif" => Some(TileType::Avif),
        "pbf" | "mvt" | "application/vnd.mapbox-vector-tile" => Some(TileType::Mvt),
        "mlt" | "application/vnd.maplibre-vector-tile" => Some(TileType::Mlt),
        _ => None,
    }
}

/// Whether tiles are what their type says, and never compressed again.
fn is_image(tile_type: TileType) -> bool {
    matches!(tile_type, TileType::Png | TileType::Jpeg | TileType::Webp | TileType::Avif)
}

fn zooms(table: &Table) -> (u8, u8) {
    let ends = (table.tiles().next(), table.tiles().next_back());
    (ends.0.map_or(0, TileId::zoom), ends.1.map_or(0, TileId::zoom))
}

/// Parses numbers that are separated by commas.
fn numbers<const N: usize>(text: &str) -> Option<[f64; N]> {
    let numbers: Option<Vec<f64>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    numbers?.try_into().ok().filter(|numbers: &[f64; N]| numbers.iter().all(|number| number.is_finite()))
}

fn bounds(text: &str) -> Option<[f64; 4]> {
    let bounds @ [west, south, east, north] = numbers(text)?;
    let on_the_map = [west, east].iter().all(|lon| lon.abs() <= 180.0)
        && [south, north].iter().all(|lat| lat.abs() <= 90.0);
    (on_the_map && west <= east && south <= north).then_some(bounds)
}

fn center(text: &str) -> Option<(f64, f64, u8)> {
    let [lon, lat, zoom] = numbers(text)?;
    let zoom = (0..=pmtiles::MAX_ZOOM).find(|known| f64::from(*known) == zoom.round())?;
    (lon.abs() <= 180.0 && lat.abs() <= 90.0).then_some((lon, lat, zoom))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_centre_are_numbers_on_this_planet() {
        assert_eq!(bounds("-180.0,-85,180,85"), Some([-180.0, -85.0, 180.0, 85.0]));
        assert_eq!(bounds(" 1 , 2 , 1 , 2 "), Some([1.0, 2.0, 1.0, 2.0]));
        for wrong in
            ["", "1,2,3", "1,2,3,4,5", "a,b,c,d", "2,0,1,0", "0,2,0,1", "0,0,181,0", "0,-91,0,0", "NaN,0,0,0"]
        {
            assert_eq!(bounds(wrong), None, "{wrong}");
        }
        assert_eq!(center("-122.1906,37.7599,11"), Some((-122.1906, 37.7599, 11)));
        for wrong in ["0,0", "0,0,32", "0,0,-1", "181,0,1", "0,91,1", "0,0,inf"] {
            assert_eq!(center(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn formats_have_their_names() {
        for (name, expected) in
            [("png", TileType::Png), ("JPG", TileType::Jpeg), ("pbf", TileType::Mvt), ("mvt", TileType::Mvt)]
        {
            assert_eq!(tile_type(name), Some(expected));
        }
        assert_eq!(tile_type("gif"), None);
    }
}
