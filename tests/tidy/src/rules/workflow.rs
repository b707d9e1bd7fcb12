//! The workflow on GitHub runs what `.ci/run` runs, neither more nor less.

use std::collections::BTreeSet;

use crate::{Finding, Tree};

const SCRIPT: &str = "tools/check";
const CI: &str = ".ci/run";
const WORKFLOW: &str = ".github/workflows/concurrency-guardrails.yml";
/// It informs and never fails: worth a look on a pull request, not worth waiting for elsewhere.
const ONLY_IN_THE_WORKFLOW: &str = "advice";

/// Every step that continuous integration runs is a step of a job, and every step of a job is one of them.
#[must_use]
pub fn runs_what_ci_runs(tree: &Tree) -> Vec<Finding> {
    let usual = usual_steps(tree.text(SCRIPT).unwrap_or_default());
    let wanted = asked_for(tree.text(CI).unwrap_or_default(), &usual);
    let workflow = tree.text(WORKFLOW).unwrap_or_default();
    let mut has = asked_for(workflow, &usual);
    has.remove(ONLY_IN_THE_WORKFLOW);
    let missing = wanted.difference(&has).map(|step| format!("no job runs the step `{step}` of {CI}"));
    let more = has.difference(&wanted).map(|step| format!("{CI} does not run the step `{step}`"));
    let mut findings: Vec<_> = missing.chain(more).map(|what| Finding::new(WORKFLOW, 1, what)).collect();
    if wanted.is_empty() {
        findings.push(Finding::new(CI, 1, format!("it does not run `{SCRIPT}`")));
    }
    findings
}

/// The steps that run when none is named.
fn usual_steps(script: &str) -> Vec<&str> {
    let list = script.split_once("STEPS=(").and_then(|(_, rest)| rest.split_once(')'));
    list.map(|(steps, _)| steps.split_whitespace().collect()).unwrap_or_default()
}

/// The steps that the calls of the script in this text ask for.
fn asked_for<'a>(text: &'a str, usual: &[&'a str]) -> BTreeSet<&'a str> {
    let code = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let calls = code.filter_map(|line| line.split_once("./tools/check").map(|(_, steps)| steps));
    let mut steps = BTreeSet::new();
    for call in calls {
        let named: Vec<_> = call.split_whitespace().collect();
        steps.extend(if named.is_empty() { usual.to_vec() } else { named });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(ci: &str, workflow: &str) -> Vec<String> {
        let script = "readonly STEPS=(fmt test)\n";
        let tree = Tree::of(&[(SCRIPT, script), (CI, ci), (WORKFLOW, workflow)]);
        runs_what_ci_runs(&tree).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_step_that_only_one_of_them_runs_is_found() {
        let ci = "./tools/check\nexec ./tools/check clients\n";
        let workflow = "- run: ./tools/check fmt test # and clients, soon\n- run: ./tools/check bench\n";
        assert_eq!(
            complaints(ci, workflow),
            ["no job runs the step `clients` of .ci/run", ".ci/run does not run the step `bench`"]
        );
        assert_eq!(complaints("true\n", "").len(), 1);
    }

    #[test]
    fn the_same_steps_in_other_portions_are_fine() {
        let workflow =
            "- run: ./tools/check test\n- run: ./tools/check fmt clients\n- run: ./tools/check advice\n";
        assert_eq!(complaints("./tools/check\n./tools/check clients\n", workflow), [""; 0]);
    }
}
