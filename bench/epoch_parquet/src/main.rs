//! Reads usage rows from a Parquet file and computes the epoch: `epoch_parquet ROWS POLICY FOLDER THREADS`.
//!
//! Row groups are added up on several threads; the sums are sealed as one snapshot and computed as any epoch is.

mod dictionary;

use std::{
    error::Error,
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use parquet::{
    column::reader::get_typed_column_reader,
    data_type::Int64Type,
    file::reader::{FileReader, RowGroupReader, SerializedFileReader},
};
use rewards::{
    Epoch, InputSet, Int, Limits, RowsHasher, Run, SignedPolicy, Snapshot, Usage, UsageTable, bundle, compute,
};
use types::ActorId;

pub(crate) type Failed = Box<dyn Error + Send + Sync>;

/// Rows that are decoded at a time.
const BATCH: usize = 8192;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rows, policy, folder, threads] = &arguments[..] else {
        return Err("usage: epoch_parquet ROWS POLICY FOLDER THREADS".into());
    };
    let policy = SignedPolicy::read(&fs::read(policy)?)?;
    let table = added_up(Path::new(rows), threads.parse()?)?;
    let run = compute(policy.policy(), &sealed(&table)?)?;
    write(Path::new(folder), &run)
}

/// Every row group goes to whichever thread is free.
fn added_up(path: &Path, threads: usize) -> Result<UsageTable, Failed> {
    let groups = SerializedFileReader::new(File::open(path)?)?.num_row_groups();
    let next = AtomicUsize::new(0);
    let parts: Vec<Result<Usage, Failed>> = std::thread::scope(|scope| {
        let work = || {
            let reader = SerializedFileReader::new(File::open(path)?)?;
            let limits = Limits::default();
            let mut usage = Usage::new(limits.max_actors, limits.max_metrics);
            loop {
                let group = next.fetch_add(1, Ordering::Relaxed);
                if group >= groups {
                    return Ok(usage);
                }
                add_group(reader.get_row_group(group)?.as_ref(), &mut usage)?;
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    let mut parts = parts.into_iter();
    let mut usage = parts.next().ok_or("no threads")??;
    for part in parts {
        usage.merge(part?)?;
    }
    Ok(usage.into_table())
}

fn add_group(group: &dyn RowGroupReader, usage: &mut Usage) -> Result<(), Failed> {
    let actors = dictionary::numbers(group, 0, |name| Ok(usage.actor(name)?))?;
    let metrics = dictionary::numbers(group, 1, |name| Ok(usage.metric(name)?))?;
    let mut column = get_typed_column_reader::<Int64Type>(group.get_column_reader(2)?);
    let (mut units, mut levels) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    let mut places = actors.into_iter().zip(metrics);
    loop {
        units.clear();
        levels.clear();
        let (records, values, _) = column.read_records(BATCH, Some(&mut levels), None, &mut units)?;
        if records != values {
            return Err("a value is missing".into());
        }
        if units.is_empty() {
            return Ok(());
        }
        for units in &units {
            let (actor, metric) = places.next().ok_or("columns of different lengths")?;
            usage.add_numbered(actor, metric, units.cast_unsigned().into())?;
        }
    }
}

/// The sums as the snapshot of one node.
fn sealed(table: &UsageTable) -> Result<InputSet, Failed> {
    let mut hasher = RowsHasher::new();
    table.rows().try_for_each(|row| hasher.push(row))?;
    let node = ActorId::new("bench")?;
    let epoch = Epoch::new(1).ok_or("an epoch")?;
    let rows = Int::new(hasher.rows()).ok_or("too many rows")?;
    let snapshot = Snapshot { node: node.clone(), epoch, rows, rows_root: hasher.finish() };
    let mut set = InputSet::builder(epoch, [node].into(), Limits::default());
    let mut taken = set.snapshot(snapshot)?;
    table.rows().try_for_each(|row| taken.row(row))?;
    taken.finish()?;
    Ok(set.close()?)
}

fn write(folder: &Path, run: &Run) -> Result<(), Failed> {
    let mut file = BufWriter::new(File::create(folder.join(bundle::ALLOCATIONS))?);
    let mut line = Vec::new();
    for at in 0..run.lines() {
        line.clear();
        run.write_line(at, &mut line);
        file.write_all(&line)?;
    }
    file.flush()?;
    fs::write(folder.join(bundle::RUN), run.document())?;
    Ok(())
}
