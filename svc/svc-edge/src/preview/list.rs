//! The list of packs, for programs and for people.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::escape::Escaped;
use crate::{
    packs::{Packs, Slot, State},
    tiles::Kind,
};

/// Every pack and its state.
pub(crate) fn packs_json(packs: &Packs) -> Value {
    json!({ "packs": packs.values().map(|slot| describe(slot)).collect::<Vec<_>>() })
}

fn describe(slot: &Slot) -> Value {
    let mut fields = json!({ "name": slot.name() });
    match &**slot.state() {
        State::Served { mounted, problem } => {
            let info = mounted.pack.info();
            fields["state"] = "served".into();
            if let Some(problem) = problem {
                fields["problem"] = (*problem.reason).into();
            }
            fields["format"] = info.format.to_string().into();
            fields["tiles"] = Kind::of(info.tile_type).extension().into();
            fields["min_zoom"] = info.min_zoom.into();
            fields["max_zoom"] = info.max_zoom.into();
            fields["bounds"] = json!(info.bounds);
            fields["tile_count"] = info.tiles.into();
            fields["bytes"] = info.size.into();
            fields["id"] = json!(info.id);
            fields["map"] = format!("tiles/{}", slot.name()).into();
            fields["tilejson"] = format!("tiles/{}.json", slot.name()).into();
        }
        State::Mounting(progress) => {
            fields["state"] = "mounting".into();
            fields["percent"] = progress.percent().into();
        }
        State::Refused(problem) => {
            fields["state"] = "refused".into();
            fields["problem"] = (*problem.reason).into();
        }
    }
    fields
}

/// Returns the list of packs as a web page.
pub(crate) fn packs_html(packs: &Packs) -> String {
    let mut rows = String::new();
    for slot in packs.values() {
        let name = Escaped(slot.name());
        // Writing to a string cannot fail.
        let _ = match &**slot.state() {
            State::Served { mounted, problem } => {
                let info = mounted.pack.info();
                let (kind, tiles) = (Kind::of(info.tile_type).extension(), info.tiles);
                let (min, max) = (info.min_zoom, info.max_zoom);
                let problem = problem.as_ref().map_or("", |problem| &*problem.reason);
                writeln!(
                    rows,
                    "<tr><td><a href=\"tiles/{name}\">{name}</a><td>{kind}<td>{min}–{max}<td>{tiles}\
                     <td class=\"problem\">{}",
                    Escaped(problem)
                )
            }
            State::Mounting(progress) => {
                writeln!(rows, "<tr><td>{name}<td><td><td><td>mounting, {} %", progress.percent())
            }
            State::Refused(problem) => {
                writeln!(rows, "<tr><td>{name}<td><td><td><td class=\"problem\">{}", Escaped(&problem.reason))
            }
        };
    }
    if packs.is_empty() {
        rows.push_str("<tr><td colspan=\"5\">No pack is configured.\n");
    }
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Packs</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="preview/map.css">
</head>
<body>
<main>
<h1>Packs</h1>
<table>
<thead><tr><th>Pack<th>Tiles<th>Zoom<th>Count<th>Problem</thead>
<tbody>
{rows}</tbody>
</table>
</main>
</body>
</html>
"#
    )
}
