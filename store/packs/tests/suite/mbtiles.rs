//! MBTiles packs: what is mounted, and which databases are refused.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and nothing here runs on a runtime"
)]

use std::{fs, path::Path};

use crate::common::{Folder, SCHEMA, Tiles, assert_serves, gzip, mount, refusal, tiles};
use decode::Coding;
use packs::{Format, Limits, MountOptions, Pack, TileType};
use rusqlite::Connection;

fn change(path: &Path, statements: &str) {
    Connection::open(path).unwrap().execute_batch(statements).unwrap();
}

/// The schema with one tile, 0/0/0.
fn one_tile(folder: &Folder, statements: &str) -> std::path::PathBuf {
    let path =
        folder.database("one.mbtiles", &format!("{SCHEMA} INSERT INTO tiles VALUES (0, 0, 0, x'616263');"));
    change(&path, statements);
    path
}

#[test]
fn a_pack_is_mounted_described_and_served() {
    let folder = Folder::new();
    let tiles = tiles(5);
    // By its content, whatever it is called; and a name that means something in URIs.
    let path = folder.mbtiles("50% of it?mode=rwc#ä.pmtiles", &tiles);
    let pack = mount(&path).unwrap();
    let info = pack.info();
    assert_eq!((info.name.as_str(), info.format), ("little world", Format::Mbtiles));
    assert_eq!((info.tiles, info.min_zoom, info.max_zoom), (tiles.len() as u64, 0, 5));
    assert_eq!((info.tile_type, info.coding), (TileType::Png, Some(Coding::Identity)));
    assert_eq!((info.bounds, info.center), ([-10.0, -20.0, 30.0, 40.0], Some((1.5, 2.5, 3))));
    assert!(info.metadata.contains_key("vector_layers") && info.notes.is_empty(), "{:?}", info.notes);
    let bytes = fs::read(&path).unwrap();
    assert_eq!((info.size, info.id.as_bytes()), (bytes.len() as u64, blake3::hash(&bytes).as_bytes()));
    assert_eq!(pack.file().read_all().unwrap(), bytes);
    assert_serves(&pack, &tiles);
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn rows_are_counted_from_the_south() {
    let folder = Folder::new();
    let path =
        folder.database("a.mbtiles", &format!("{SCHEMA} INSERT INTO tiles VALUES (2, 1, 3, 'n' || x'');"));
    change(&path, "UPDATE tiles SET tile_data = x'6e'");
    let pack = mount(&path).unwrap();
    assert_eq!(pack.tile(2, 1, 0).unwrap().unwrap().bytes, "n");
    assert_eq!(pack.tile(2, 1, 3).unwrap(), None);
}

#[test]
fn vector_tiles_tell_their_coding_one_by_one() {
    let folder = Folder::new();
    let tiles: Tiles = [
        ((0, 0, 0), gzip(b"a")),
        ((1, 0, 0), b"\x1a\x00".to_vec()),
        ((1, 1, 0), b"\x78\x9c\x03\x00".to_vec()),
    ]
    .into();
    let path = folder.mbtiles("v.mbtiles", &tiles);
    change(&path, "UPDATE metadata SET value = 'pbf' WHERE name = 'format'");
    let pack = mount(&path).unwrap();
    let coding = |z, x, y| pack.tile(z, x, y).unwrap().unwrap().coding;
    assert_eq!(
        [coding(0, 0, 0), coding(1, 0, 0), coding(1, 1, 0)],
        [Some(Coding::Gzip), None, Some(Coding::Deflate)]
    );
    assert_eq!((pack.info().tile_type, pack.info().coding), (TileType::Mvt, None));
}

#[test]
fn what_the_metadata_leave_open_is_told_by_the_tiles() {
    let folder = Folder::new();
    let path = folder.mbtiles("a.mbtiles", &[((3, 1, 1), b"\x89PNG\r\n".to_vec())].into());
    change(&path, "DELETE FROM metadata");
    let info = mount(&path).unwrap().info().clone();
    assert_eq!((info.tile_type, info.min_zoom, info.max_zoom), (TileType::Png, 3, 3));
    assert_eq!((info.name.as_str(), info.bounds[0], info.center), ("a", -180.0, None));
    change(
        &path,
        "INSERT INTO metadata VALUES ('minzoom', '1'), ('maxzoom', 9), ('bounds', 'all'), ('x', NULL)",
    );
    let info = mount(&path).unwrap().info().clone();
    assert_eq!((info.min_zoom, info.max_zoom, info.bounds[0]), (1, 9, -180.0));
    assert_eq!(info.notes.len(), 2, "{:?}", info.notes);
    change(&path, "UPDATE metadata SET value = '77' WHERE name = 'maxzoom'");
    assert_eq!(mount(&path).unwrap().info().max_zoom, 3);
}

#[test]
fn views_that_look_tiles_up_are_as_good_as_tables() {
    let folder = Folder::new();
    let path = folder.database(
        "views.mbtiles",
        "CREATE TABLE map (zoom_level integer, tile_column integer, tile_row integer, tile_id text);
         CREATE TABLE images (tile_id text, tile_data blob);
         CREATE UNIQUE INDEX map_index ON map (zoom_level, tile_column, tile_row);
         CREATE UNIQUE INDEX images_index ON images (tile_id);
         CREATE TABLE metadata_table (name text, value text);
         CREATE VIEW metadata AS SELECT name, value FROM metadata_table;
         CREATE VIEW tiles AS SELECT map.zoom_level AS zoom_level, map.tile_column AS tile_column,
             map.tile_row AS tile_row, images.tile_data AS tile_data
             FROM map JOIN images ON images.tile_id = map.tile_id;
         INSERT INTO images VALUES ('sea', x'736561');
         INSERT INTO map VALUES (0, 0, 0, 'sea'), (1, 0, 0, 'sea'), (1, 1, 1, 'none');",
    );
    assert_serves(
        &mount(&path).unwrap(),
        &[((0, 0, 0), b"sea".to_vec()), ((1, 0, 1), b"sea".to_vec())].into(),
    );
}

#[test]
fn a_database_without_the_tables_of_a_pack_is_refused() {
    let folder = Folder::new();
    let missing = |name: &str, statements: &str| refusal(&folder.database(name, statements));
    let tiles =
        "it has no table or view `tiles` with the columns zoom_level, tile_column, tile_row, tile_data";
    assert_eq!(missing("a", "CREATE TABLE other (x)"), tiles);
    assert_eq!(missing("b", "CREATE TABLE tiles (zoom_level, tile_column, tile_row)"), tiles);
    let metadata = "it has no table or view `metadata` with the columns name, value";
    let table = "CREATE TABLE tiles (zoom_level, tile_column, tile_row, tile_data);";
    assert_eq!(missing("c", table), metadata);
    assert_eq!(missing("d", &format!("{table} CREATE TABLE metadata (name)")), metadata);
    assert_eq!(missing("e", SCHEMA), "it has no tiles");
    // A view on something that is not there.
    let view = "CREATE VIEW tiles AS SELECT * FROM nowhere";
    assert_eq!(missing("f", view), tiles);
}

#[test]
fn triggers_and_virtual_tables_are_refused() {
    let folder = Folder::new();
    let path = one_tile(&folder, "CREATE TRIGGER t AFTER INSERT ON tiles BEGIN SELECT 1; END");
    assert_eq!(refusal(&path), "it has a trigger, which a pack does not need");
    let path = folder.database(
        "v.mbtiles",
        "CREATE VIRTUAL TABLE tiles USING fts5(zoom_level, tile_column, tile_row, tile_data)",
    );
    assert_eq!(refusal(&path), "it has a virtual table, which a pack does not need");
    let path = folder.database("w.mbtiles", "create  virtual /* hidden */ table x using rtree(a, b, c)");
    assert_eq!(refusal(&path), "it has a virtual table, which a pack does not need");
}

#[test]
fn too_many_tables_are_refused() {
    let folder = Folder::new();
    let tables: String = (0..201).map(|at| format!("CREATE TABLE t{at} (x);")).collect();
    assert_eq!(refusal(&folder.database("a", &tables)), "it has more than 200 tables, views and indexes");
}

#[test]
fn tiles_that_can_only_be_found_by_reading_all_are_refused() {
    let folder = Folder::new();
    let path = one_tile(&folder, "DROP INDEX tile_index");
    assert!(refusal(&path).starts_with("its tiles cannot be looked up without reading all of them"));
    change(&path, "CREATE INDEX any_order ON tiles (tile_row, tile_column, zoom_level)");
    assert!(mount(&path).is_ok());
    // An index that leaves most to be read.
    let path = folder.database(
        "many.mbtiles",
        "CREATE TABLE metadata (name text, value text);
         CREATE TABLE tiles (zoom_level integer, tile_column integer, tile_row integer, tile_data blob);
         CREATE INDEX zoom ON tiles (zoom_level);
         WITH RECURSIVE n (x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x < 399999)
         INSERT INTO tiles SELECT 19, x, 0, x'61' FROM n;",
    );
    assert!(refusal(&path).starts_with("its tiles cannot be looked up without reading all of them"));
}

#[test]
fn views_that_never_end_or_call_for_help_are_refused() {
    let folder = Folder::new();
    let view = |name: &str, select: &str| {
        refusal(&folder.database(
            name,
            &format!("CREATE TABLE metadata (name text, value text); CREATE TABLE one (x); INSERT INTO one VALUES (1);
                      CREATE VIEW tiles AS {select}"),
        ))
    };
    let endless = "WITH RECURSIVE n (x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n)
                   SELECT 20 AS zoom_level, x AS tile_column, 0 AS tile_row, x'61' AS tile_data FROM n";
    assert!(view("a", endless).starts_with("its tiles cannot be looked up without reading all of them"));
    let place = "0 AS zoom_level, 0 AS tile_column, 0 AS tile_row";
    let loads = view("b", &format!("SELECT {place}, load_extension('x') AS tile_data FROM one"));
    assert_eq!(loads, "the database is refused: unsafe use of load_extension()");
    let hidden = view("c", &format!("SELECT {place}, x'61' AS tile_data FROM pragma_database_list"));
    assert_eq!(hidden, "the database is refused: unsafe use of virtual table \"pragma_database_list\"");
}

/// A hundred numbers, for views that multiply them.
const NUMBERS: &str = "CREATE TABLE numbers (n integer PRIMARY KEY);
    WITH RECURSIVE up (n) AS (SELECT -100 UNION ALL SELECT n + 1 FROM up WHERE n < -1) INSERT INTO numbers SELECT n FROM up;";

#[test]
fn views_with_rows_without_end_are_refused_and_the_mount_can_be_stopped() {
    let folder = Folder::new();
    let statements = format!(
        "{NUMBERS} CREATE TABLE metadata (name text, value text);
         CREATE VIEW tiles AS SELECT a.n AS zoom_level, b.n AS tile_column, c.n AS tile_row, x'61' AS tile_data
             FROM numbers a, numbers b, numbers c"
    );
    let path = folder.database("a.mbtiles", &statements);
    let limits = Limits { mbtiles_tiles: 1000, ..Limits::default() };
    let mounted = Pack::mount(&path, MountOptions { limits, ..MountOptions::default() });
    assert!(mounted.unwrap_err().to_string().starts_with("it has more than 1000 tiles"));
    let mut stop = |_| std::ops::ControlFlow::Break(());
    let stopped = Pack::mount(&path, MountOptions { progress: Some(&mut stop), ..MountOptions::default() });
    assert_eq!(stopped.unwrap_err().to_string(), "the mount was stopped");
}

#[test]
fn metadata_that_collect_rows_or_have_no_end_are_refused() {
    let folder = Folder::new();
    let metadata = |name: &str, view: &str| {
        let path =
            one_tile(&folder, &format!("DROP TABLE metadata; {NUMBERS} CREATE VIEW metadata AS {view}"));
        let renamed = folder.path(name);
        fs::rename(&path, &renamed).unwrap();
        refusal(&renamed)
    };
    let all = "FROM numbers a, numbers b, numbers c";
    for (name, view) in [
        ("a", format!("SELECT a.n AS name, b.n AS value {all} ORDER BY a.n + c.n LIMIT 1000")),
        ("b", format!("SELECT DISTINCT a.n AS name, b.n AS value {all}")),
        ("c", format!("SELECT a.n AS name, max(b.n) AS value {all} GROUP BY a.n + c.n")),
        ("d", "SELECT n AS name, n AS value FROM numbers UNION SELECT -n, n FROM numbers".to_owned()),
        ("e", "SELECT n AS name, sum(n) OVER () AS value FROM numbers".to_owned()),
        ("f", "SELECT n AS name, n AS value FROM numbers WHERE -n IN (SELECT -n FROM numbers)".to_owned()),
    ] {
        let reason = metadata(name, &view);
        assert!(reason.starts_with("reading `metadata` would collect rows in memory"), "{view}: {reason}");
    }
    let endless = metadata("g", &format!("SELECT NULL AS name, NULL AS value {all}"));
    assert_eq!(endless, "its metadata is larger than allowed");
}

#[test]
fn only_functions_that_a_pack_needs_are_called() {
    let folder = Folder::new();
    let database = |name: &str, data: &str| {
        let statements = format!(
            "CREATE TABLE metadata (name text, value text);
             CREATE TABLE flat (z integer, x integer, y integer, data blob, PRIMARY KEY (z, x, y));
             INSERT INTO flat VALUES (0, 0, 0, x'616263');
             CREATE VIEW tiles AS SELECT z AS zoom_level, x AS tile_column, y AS tile_row, {data} AS tile_data FROM flat"
        );
        folder.database(name, &statements)
    };
    let known = mount(&database("a", "ifnull(data, x'')")).unwrap();
    assert_eq!(known.tile(0, 0, 0).unwrap().unwrap().bytes, "abc");
    for (name, call) in [("b", "zeroblob(3)"), ("c", "CAST(printf('%.*c', 3, 'x') AS blob)")] {
        let reason = refusal(&database(name, call));
        assert!(reason.contains("not authorized to use function"), "{reason}");
    }
}

#[test]
fn columns_with_something_else_in_them_are_refused() {
    let folder = Folder::new();
    for (name, row, reason) in [
        ("a", "('zero', 0, 0, x'61')", "zoom_level of a row of `tiles` is not a whole number"),
        ("b", "(0, 0.5, 0, x'61')", "tile_column of a row of `tiles` is not a whole number"),
        ("c", "(0, 0, NULL, x'61')", "tile_row of a row of `tiles` is not a whole number"),
        ("d", "(0, 0, 0, 'text')", "tile_data of a row of `tiles` is not a blob"),
    ] {
        let path = folder.database(name, &format!("{SCHEMA} INSERT INTO tiles VALUES {row}"));
        assert_eq!(refusal(&path), reason);
    }
}

#[test]
fn rows_that_are_no_tiles_are_ignored_and_noted() {
    let folder = Folder::new();
    let path = one_tile(
        &folder,
        "INSERT INTO tiles VALUES (1, 2, 0, x'61'), (-1, 0, 0, x'61'), (1, 0, 0, NULL), (1, 1, 1, x'')",
    );
    let pack = mount(&path).unwrap();
    assert_eq!(pack.info().notes, ["4 rows are empty or no tiles of their zoom"]);
    assert_serves(&pack, &[((0, 0, 0), b"abc".to_vec())].into());
}

#[test]
fn a_tile_with_two_contents_is_refused_and_one_with_two_rows_is_not() {
    let folder = Folder::new();
    let path = one_tile(
        &folder,
        "DROP INDEX tile_index; CREATE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row);
         INSERT INTO tiles VALUES (0, 0, 0, x'616263')",
    );
    assert_eq!(mount(&path).unwrap().info().tiles, 1);
    change(&path, "INSERT INTO tiles VALUES (0, 0, 0, x'00')");
    assert_eq!(refusal(&path), "tile 0/0/0 is there twice, with different contents");
}

#[test]
fn tiles_are_limited_in_size_and_number() {
    let folder = Folder::new();
    let path = folder.mbtiles("a.mbtiles", &[((1, 0, 0), vec![1; 1000]), ((1, 1, 0), vec![2; 1001])].into());
    let with = |tile_bytes, mbtiles_tiles| {
        let mut limits = Limits { mbtiles_tiles, ..Limits::default() };
        limits.pmtiles.tile_bytes = tile_bytes;
        Pack::mount(&path, MountOptions { limits, ..MountOptions::default() })
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(with(1001, 2), Ok(()));
    assert_eq!(
        with(1000, 2),
        Err("tile 1/1/1 (rows from the south) has 1001 bytes, more than 1000".to_owned())
    );
    let many = "it has more than 1 tiles; larger packs are better kept as PMTiles, or raise the limit";
    assert_eq!(with(1001, 1), Err(many.to_owned()));
}

#[test]
fn a_blob_larger_than_any_limit_is_not_read_into_memory() {
    let folder = Folder::new();
    let path = one_tile(&folder, "INSERT INTO tiles VALUES (1, 0, 0, zeroblob(40000000))");
    let reason = refusal(&path);
    assert!(reason.starts_with("the database is refused") && reason.contains("too big"), "{reason}");
}

#[test]
fn metadata_are_limited() {
    let folder = Folder::new();
    let path = one_tile(&folder, "INSERT INTO metadata VALUES ('json', '[1]')");
    assert!(refusal(&path).starts_with("the metadata is not a JSON object"));
    let path = folder.mbtiles("b.mbtiles", &tiles(1));
    change(&path, "INSERT INTO metadata VALUES ('a', printf('%.*c', 9000000, 'x'))");
    assert_eq!(refusal(&path), "its metadata is larger than allowed");
}

#[test]
fn a_database_that_is_being_written_is_refused() {
    let folder = Folder::new();
    let path = folder.mbtiles("a.mbtiles", &tiles(2));
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode = WAL; UPDATE tiles SET tile_data = x'00';").unwrap();
    let reason = refusal(&path);
    assert!(reason.contains("a.mbtiles-wal lies beside it"), "{reason}");
    drop(writer);
    assert_eq!(mount(&path).unwrap().tile(0, 0, 0).unwrap().unwrap().bytes, &b"\0"[..]);
}

#[test]
fn a_database_that_is_cut_short_is_refused() {
    let folder = Folder::new();
    let path = folder.mbtiles("a.mbtiles", &tiles(4));
    let whole = fs::read(&path).unwrap();
    for len in (16..whole.len()).step_by(997) {
        fs::write(&path, &whole[..len]).unwrap();
        let reason = refusal(&path);
        assert!(reason.contains("cut short") || len < 100, "{len}: {reason}");
    }
}
