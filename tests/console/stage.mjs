// A real node to look at: the built program, servers behind it, well-behaved tenants and one that floods.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const SLOT_MS = 40;

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Asks until there is an answer that is wanted. */
export async function eventually(what, look, patience = 20000) {
  for (const end = Date.now() + patience; ; await pause(100)) {
    const found = await look().catch((error) => (Date.now() > end ? Promise.reject(error) : null));
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
  }
}

/** A port that nobody has at this moment. */
function freePort() {
  return new Promise((done) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

/** A server that takes its time. */
function slowServer() {
  return new Promise((done) => {
    const server = http.createServer((_, answer) => setTimeout(() => answer.end("ok"), SLOT_MS));
    server.listen(0, "127.0.0.1", () => done(server));
  });
}

/** A node in a folder of its own. */
export class Stage {
  static async start(program, { token, everything } = {}) {
    const stage = new Stage();
    stage.dir = mkdtempSync(join(tmpdir(), "console-"));
    stage.server = await slowServer();
    [stage.gateway, stage.admin, stage.edge, stage.nobody, stage.overlay, stage.rewarder] = await Promise.all(Array.from({ length: 6 }, freePort));
    const packs = everything ? demoPacks(program, stage.dir) : [];
    stage.good = stage.config(token, packs);
    stage.mendConfig();
    stage.child = spawn(program, ["up"], { cwd: stage.dir, stdio: ["ignore", "ignore", "pipe"], env: {} });
    // Whatever ends this script ends the node.
    process.on("exit", () => stage.child.kill("SIGKILL"));
    stage.said = "";
    stage.child.stderr.on("data", (text) => { stage.said += text; });
    stage.ended = new Promise((done) => stage.child.on("exit", (code) => done(code)));
    await eventually(`the node is ready\n${stage.said}`, async () => (await fetch(`${stage.url}/readyz`)).ok);
    return stage;
  }

  get url() {
    return `http://127.0.0.1:${this.admin}`;
  }

  config(token, packs) {
    const app = this.server.address().port;
    return `
[node]
name = "harbour"
data_dir = "data"
[log]
level = "error"
[admin]
listen = "127.0.0.1:${this.admin}"
${token ? `token = "${token}"` : ""}
[gateway]
listen = "127.0.0.1:${this.gateway}"
tenant_from = ["header:x-tenant", "ip"]
quotas.per_ip_rps = 0
drr.rate_limit_rps = 0
drr.tenant_quanta = { owl = 2 }
fair_queue = { max_inflight = 4, max_waiting = 32 }
route = [
  { path = "/spare", upstream = "spare" },
  { path = "/", upstream = "app" },
]
upstream.app.endpoints = ["http://127.0.0.1:${app}"]
upstream.spare = { endpoints = ["http://127.0.0.1:${app}", "http://127.0.0.1:${this.nobody}"], breaker = { open_for = "30s" } }
[edge]
enabled = ${packs.length > 0}
listen = "127.0.0.1:${this.edge}"
packs = ${JSON.stringify(packs)}
[overlay]
enabled = ${packs.length > 0}
listen = "127.0.0.1:${this.overlay}"
security = "plaintext"
topics = ["harbour/news"]
[rewarder]
enabled = ${packs.length > 0}
listen = "127.0.0.1:${this.rewarder}"
epoch_duration = "5s"
max_epoch_skew = "1s"
`;
  }

  /** Has a tenant ask so many times a second, whatever becomes of it. Returns what stops it. */
  ask(perSecond, tenant, path = "/", port = this.gateway) {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
    const headers = tenant ? { "x-tenant": tenant } : {};
    const one = () => http.get({ host: "127.0.0.1", port, path, agent, headers }, (answer) => answer.resume()).on("error", () => {});
    const timer = setInterval(() => { for (let n = 0; n < perSecond / 10; n += 1) one(); }, 100);
    return () => {
      clearInterval(timer);
      agent.destroy();
    };
  }

  /** Makes a mistake in the configuration file, which the node watches. */
  breakConfig() {
    writeFileSync(join(this.dir, "omnigate.toml"), `${this.good}\nno_such_key = 1\n`);
  }

  /** Takes it back. */
  mendConfig() {
    writeFileSync(join(this.dir, "omnigate.toml"), this.good);
  }

  async stop() {
    this.child.kill("SIGTERM");
    const code = await this.ended;
    this.server.closeAllConnections();
    this.server.close();
    rmSync(this.dir, { recursive: true, force: true });
    return code;
  }
}

/** The demo pack, and a copy that claims to be of Europe alone. */
function demoPacks(program, dir) {
  const [world, europe] = ["world", "europe"].map((name) => join(dir, `${name}.pmtiles`));
  const made = spawnSync(program, ["pack", "make", "--demo", "--zoom", "1", world]);
  if (made.status !== 0) throw new Error(`${made.stderr}`);
  const bytes = readFileSync(world);
  // Where the header of PMTiles 3 has west, south, east and north, in ten-millionths of a degree.
  [-11, 35, 32, 70].forEach((degrees, at) => bytes.writeInt32LE(degrees * 1e7, 102 + 4 * at));
  writeFileSync(europe, bytes);
  return [world, europe];
}
