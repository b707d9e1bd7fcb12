#!/usr/bin/env python3
"""Runs the public cache-tests (https://github.com/http-tests/cache-tests) against omnigate, nginx, Squid and Varnish.

The suite is not part of this tree. Put a checkout under target/, run `npm install` in it, and name it:

    bench/cache_tests.py --suite target/cache-tests --bin target/debug/omnigate

Prints how many tests each peer passes, by group, as a table in Markdown. Everything is on the loopback interface; each peer
takes about a minute. Peers that are not installed are left out.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

ORIGIN, FRONT = 18000, 18001

OMNIGATE = """[gateway]
listen = "127.0.0.1:{front}"
quotas = {{ per_ip_rps = 0, refusals_rps = 0 }}
drr.rate_limit_rps = 0
route = [{{ path = "/", upstream = "to", cache = {cache} }}]
[gateway.upstream.to]
endpoints = ["http://127.0.0.1:{origin}"]
timeout = "15s"
breaker = {{ error_rate = 0, consecutive = 0 }}
eject.consecutive = 0
retry.max_tries = 1
"""

NGINX = """worker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/err;
events {{}}
http {{
  access_log off; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;
  uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  proxy_cache_path {dir}/cache levels=1:2 keys_zone=z:8m max_size=1000m inactive=600m;
  server {{ listen 127.0.0.1:{front}; location / {{
    proxy_pass http://127.0.0.1:{origin}; proxy_cache z; proxy_cache_revalidate on; proxy_http_version 1.1; }} }}
}}
"""

SQUID = """http_port 127.0.0.1:{front} accel defaultsite=localhost no-vhost
cache_peer 127.0.0.1 parent {origin} 0 no-query no-digest originserver default name=origin
cache_peer_access origin allow all
http_access allow all
shutdown_lifetime 1 second
pid_filename none
access_log none
cache_log {dir}/log
coredump_dir {dir}
pinger_enable off
"""

VARNISH = 'vcl 4.0;\nbackend default {{ .host = "127.0.0.1"; .port = "{origin}"; }}\n'

# Prints the groups and the kinds of all tests that run against a proxy.
LIST = """import tests from './tests/index.mjs'
console.log(JSON.stringify(tests.map(group => [group.id, group.tests.filter(test => !test.browser_only)
  .map(test => [test.id, test.kind || 'required'])])))"""


def peers(program, folder):
    """Each peer's name, its configuration and how it is started with it."""
    conf = lambda name: f"{folder}/{name}"
    varnish = ["varnishd", "-F", "-j", "none", "-a", f"127.0.0.1:{FRONT}", "-f", conf("Varnish"), "-n", f"{folder}/v"]
    varnish += ["-p", "default_ttl=0", "-p", "default_grace=0", "-p", "default_keep=3600", "-s", "malloc,64M"]
    return {
        "omnigate": (OMNIGATE.replace("{cache}", "{{}}"), [program, "gateway", "--config", conf("omnigate")]),
        "omnigate, `store_set_cookie`": (
            OMNIGATE.replace("{cache}", "{{ store_set_cookie = true }}"),
            [program, "gateway", "--config", conf("omnigate, `store_set_cookie`")],
        ),
        "nginx": (NGINX, ["nginx", "-c", conf("nginx")]),
        "Squid": (SQUID, ["squid", "-N", "-f", conf("Squid")]),
        "Varnish": (VARNISH, varnish),
    }


def wait_for(port):
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"nobody listens on port {port}")


def run(suite, command):
    """The results of all tests against a peer."""
    env = {**os.environ, "npm_config_protocol": "http", "npm_config_port": str(ORIGIN), "npm_config_id": ""}
    env |= {"npm_package_config_id": "", "npm_config_pidfile": os.devnull, "npm_config_base": f"http://127.0.0.1:{FRONT}"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    origin = subprocess.Popen(["node", "test-engine/server/server.mjs"], cwd=suite, env=env, **quiet)
    peer = subprocess.Popen(command, **quiet)
    try:
        wait_for(ORIGIN)
        wait_for(FRONT)
        done = subprocess.run(
            ["node", "--no-warnings", "test-engine/cli.mjs"], cwd=suite, env=env, capture_output=True, check=True
        )
        return json.loads(done.stdout)
    finally:
        for process in (peer, origin):
            process.terminate()
            process.wait()


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--suite", required=True, type=pathlib.Path, help="a checkout of cache-tests with its packages")
    args.add_argument("--bin", default="target/dist/omnigate", help="the program")
    args.add_argument("--peers", default="", help="only these, with commas between; all that are installed if empty")
    args = args.parse_args()
    wanted = [name for name in args.peers.split(",") if name]
    node = ["node", "--input-type=module", "-e", LIST]
    groups = json.loads(subprocess.run(node, cwd=args.suite, capture_output=True, check=True).stdout)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        for name, (conf, command) in peers(os.path.abspath(args.bin), folder).items():
            if shutil.which(command[0]) is None or wanted and name not in wanted:
                continue
            text = conf.format(front=FRONT, origin=ORIGIN, dir=folder)
            pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            results[name] = run(args.suite, command)
    print("| group | tests | " + " | ".join(results) + " |")
    print("|---" * (len(results) + 2) + "|")
    everything = [test for _, tests in groups for test in tests]
    kinds = [(kind, [test for test in everything if test[1] == kind]) for kind in ("required", "optimal", "check")]
    for group, tests in [*groups, *[(f"**all {kind}**", tests) for kind, tests in kinds], ("**all**", everything)]:
        passed = [sum(result.get(test) is True for test, _ in tests) for result in results.values()]
        print(f"| {group} | {len(tests)} | " + " | ".join(map(str, passed)) + " |")
    for name, result in results.items():
        failed = [test for test, kind in everything if kind == "required" and result.get(test) is not True]
        print(f"\n{name}, required and not passed: {', '.join(failed) or 'none'}")


if __name__ == "__main__":
    main()
