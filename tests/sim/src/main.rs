//! `sim [SCENARIO] [--seed N | --seeds N] [--times N] [--trace] [--file TOML]`: runs scenarios of the suite or of a file,
//! and says what they came to. `--times 10` tries ten times as many seeds of each as the suite does.

use std::process::ExitCode;

fn main() -> ExitCode {
    match Wish::read(std::env::args().skip(1)) {
        Ok(wish) => wish.fulfil(),
        Err(message) => {
            eprintln!(
                "{message}\nusage: sim [SCENARIO] [--seed N | --seeds N] [--times N] [--trace] [--file TOML]"
            );
            ExitCode::from(2)
        }
    }
}

#[derive(Default)]
struct Wish {
    scenario: Option<String>,
    seed: Option<u64>,
    seeds: Option<u64>,
    times: Option<u64>,
    trace: bool,
    suite: Vec<sim::Scenario>,
}

impl Wish {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut wish = Self { suite: sim::suite(), ..Self::default() };
        while let Some(arg) = args.next() {
            let mut number = || args.next().and_then(|text| text.parse().ok()).ok_or(format!("{arg} what?"));
            match arg.as_str() {
                "--seed" => wish.seed = Some(number()?),
                "--seeds" => wish.seeds = Some(number()?),
                "--times" => wish.times = Some(number()?),
                "--trace" => wish.trace = true,
                "--file" => wish.suite = from_file(&args.next().ok_or("--file what?")?)?,
                name if wish.suite.iter().any(|scenario| scenario.name == name) => wish.scenario = Some(arg),
                _ => return Err(format!("no such scenario: {arg}")),
            }
        }
        Ok(wish)
    }

    fn fulfil(self) -> ExitCode {
        let is_wanted = |name: &str| self.scenario.as_ref().is_none_or(|wanted| wanted == name);
        let (mut runs, mut bad) = (0u64, 0u64);
        for scenario in self.suite.iter().filter(|scenario| is_wanted(&scenario.name)) {
            let seeds = self.seeds.unwrap_or(scenario.seeds * self.times.unwrap_or(1));
            let seeds = self.seed.map_or(0..seeds, |seed| seed..seed + 1);
            let mut summary = Summary::default();
            for seed in seeds {
                let report = sim::run(scenario, seed, self.trace);
                runs += 1;
                bad += u64::from(!report.is_good());
                if !report.is_good() || self.seed.is_some() {
                    println!("{report}");
                }
                summary.add(&report);
            }
            println!("{:<22} {summary}", scenario.name);
        }
        println!("{runs} runs, {bad} of them bad");
        if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[expect(clippy::disallowed_methods, reason = "one file, read before anything runs")]
fn from_file(path: &str) -> Result<Vec<sim::Scenario>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    sim::read(&text).map_err(|error| format!("{path}: {error}"))
}

/// Sums and extremes over the seeds of a scenario.
#[derive(Default)]
struct Summary {
    runs: u64,
    owed: u64,
    delivered: u64,
    reported: u64,
    extinct: u64,
    redundancy: f64,
    hops: (f64, u8),
    slowest: f64,
}

impl Summary {
    fn add(&mut self, report: &sim::Report) {
        self.runs += 1;
        self.owed += report.balance.owed;
        self.delivered += report.balance.delivered;
        self.reported += report.balance.reported;
        self.extinct += report.balance.extinct;
        self.redundancy = self.redundancy.max(report.redundancy);
        self.hops = (self.hops.0.max(report.hops.0), self.hops.1.max(report.hops.1));
        self.slowest = self.slowest.max(report.settled.as_secs_f64());
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} runs, owed {} = delivered {} + named {}, extinct {}, most: redundancy {:.3}, hops {:.1} / {}, settled in {:.1} s",
            self.runs,
            self.owed,
            self.delivered,
            self.reported,
            self.extinct,
            self.redundancy,
            self.hops.0,
            self.hops.1,
            self.slowest
        )
    }
}
