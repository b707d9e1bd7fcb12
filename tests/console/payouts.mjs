// What real nodes were really paid: the demo's three, by the epochs that they close while we look.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "./stage.mjs";

/** Everything on one machine, a browser among it: epochs that are over soon, and much patience. */
const EPOCH = "10s";
const PATIENCE_MS = 180000;

/** `omnigate demo`, and what it says of where things are. */
export class Demo {
  static async start(program) {
    const demo = new Demo();
    demo.program = program;
    demo.dir = mkdtempSync(join(tmpdir(), "demo-"));
    demo.child = spawn(program, ["demo", "--epoch", EPOCH], { stdio: ["ignore", "pipe", "pipe"], env: { TMPDIR: demo.dir } });
    process.on("exit", () => demo.child.kill("SIGKILL"));
    demo.said = "";
    for (const stream of [demo.child.stdout, demo.child.stderr]) stream.on("data", (text) => { demo.said += text; });
    demo.ended = new Promise((done) => demo.child.on("exit", (code) => done(code)));
    demo.url = await eventually("the demo says where it is", async () => demo.said.match(/http:\S+(?=\/console)/)?.[0], PATIENCE_MS);
    demo.config = demo.said.match(/ledger balances --config (\S+)/)[1];
    await eventually("the demo is ready", async () => (await fetch(`${demo.url}/readyz`)).ok, PATIENCE_MS);
    return demo;
  }

  async lines(epoch) {
    const answer = await fetch(`${this.url}/rewarder/epochs/${epoch}/files/allocations.jsonl`);
    return (await answer.text()).trim().split("\n").map((line) => JSON.parse(line));
  }

  /** What the ledger has for each node. */
  balances() {
    const told = spawnSync(this.program, ["ledger", "balances", "--json", "--config", this.config]);
    assert.equal(told.status, 0, `${told.stderr}`);
    const actors = JSON.parse(told.stdout).filter(({ account }) => account.startsWith("actor/"));
    return new Map(actors.map(({ account, balance }) => [account.slice("actor/".length), BigInt(balance)]));
  }

  async stop() {
    this.child.kill("SIGTERM");
    assert.equal(await this.ended, 0, this.said);
    assert.deepEqual(readdirSync(this.dir), [], "nothing is left of it");
    rmSync(this.dir, { recursive: true });
  }
}

const spaced = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, " ");

/** The page shows an epoch as it is in the rewarder's files and in the ledger, and proves its lines by itself. */
export async function itShowsWhatWasPaidAndChecksIt(page, demo, go) {
  await page.goto(`${demo.url}/console`);
  await page.waitForSelector("#verdict");
  await go(page, "rewards");
  // Whatever is there when the page is opened, it comes to show an epoch that was paid.
  const title = page.locator("h2", { hasText: /^Payouts of epoch \d+$/ });
  const table = page.locator("[aria-label=Payouts] tbody tr");
  await eventually(`three nodes are paid\n${demo.said}`, async () => (await table.count()) === 3, PATIENCE_MS);
  const epoch = Number((await title.innerText()).match(/\d+/)[0]);
  await page.locator("button.link", { hasText: `epoch ${epoch}` }).click();
  await page.locator("button.link[aria-pressed=true]", { hasText: `epoch ${epoch}` }).waitFor();
  const lines = await demo.lines(epoch);
  const shown = await table.allInnerTexts();
  const balances = demo.balances();
  for (const { actor, payout } of lines) {
    const row = shown.find((text) => text.split(/\s/).includes(actor));
    assert.ok(row?.replaceAll("\u00a0", " ").includes(spaced(payout)), `${actor} is shown with ${payout}: ${shown}`);
    assert.ok(balances.get(actor) >= BigInt(payout), `${actor} has what it was paid`);
  }
  await provesEachLine(page, demo, epoch, lines);
}

async function provesEachLine(page, demo, epoch, lines) {
  const says = async (text, verdict) => {
    await page.locator("input[name=actor]").fill(text);
    await page.keyboard.press("Enter");
    await eventually(`${verdict}: ${text}`, async () => (await page.locator(".verdicts .pill").first().innerText()) === verdict);
  };
  for (const { actor } of lines) {
    await says("nobody-of-that-name", "not proven");
    await says(actor, "proven");
  }
  const proof = await (await fetch(`${demo.url}/rewarder/epochs/${epoch}/proof/${lines[0].actor}`)).json();
  await says(JSON.stringify({ ...proof, allocation: { ...proof.allocation, payout: "999999999" } }), "not proven");
  await says(JSON.stringify(proof), "proven");
}
