//! The Debian package holds what it should, and the image is built from files that exist.

use std::{fs, path::Path, process::Command};

use crate::{
    cli_run::{omnigate, run},
    repository, tool,
};

#[test]
fn the_package_installs_a_node_that_checks_its_own_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let built = ["--binary", env!("CARGO_BIN_EXE_omnigate"), "--out", out, "--quick"];
    tool(Command::new(repository("tools/deb")).args(built), "dpkg");
    let package = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let named = package.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(named.starts_with(concat!("omnigate_", env!("CARGO_PKG_VERSION"), "_")), "{named}");

    let root = dir.path().join("root");
    tool(Command::new("dpkg-deb").arg("--raw-extract").arg(&package).arg(&root), "dpkg");
    for path in [
        "usr/bin/omnigate",
        "usr/lib/systemd/system/omnigate.service",
        "usr/lib/systemd/system/omnigate.socket",
        "usr/lib/sysusers.d/omnigate.conf",
        "usr/share/man/man1/omnigate.1.gz",
        "usr/share/man/man1/omnigate-token-mint.1.gz",
        "usr/share/bash-completion/completions/omnigate",
        "usr/share/zsh/vendor-completions/_omnigate",
        "usr/share/fish/vendor_completions.d/omnigate.fish",
        "usr/share/omnigate/omnigate-alerts.yml",
        "usr/share/doc/omnigate/copyright",
    ] {
        assert!(root.join(path).exists(), "{path} is missing");
    }
    let configuration = fs::read_to_string(root.join("DEBIAN/conffiles")).unwrap();
    let configuration = root.join(configuration.trim().trim_start_matches('/'));
    let ran = run(omnigate(dir.path(), &["check", "--config", configuration.to_str().unwrap()]));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    scripts_are_sound(&root);
}

/// The maintainer scripts are of a shell that Debian's is.
fn scripts_are_sound(root: &Path) {
    for script in ["postinst", "prerm", "postrm"] {
        tool(Command::new("sh").arg("-n").arg(root.join("DEBIAN").join(script)), "dash");
    }
}

/// There is no Docker where the tests run; what can be checked without is.
#[test]
fn the_image_is_built_from_files_that_exist() {
    let dockerfile = fs::read_to_string(repository("deploy/docker/Dockerfile")).unwrap();
    let paths = dockerfile.split_whitespace().filter(|word| word.starts_with("deploy/"));
    let paths: Vec<&str> = paths.collect();
    assert!(paths.contains(&"deploy/docker/omnigate.toml"), "{paths:?}");
    for path in paths {
        assert!(repository(path).exists(), "{path}");
    }
    // The compiler in it is the oldest that the manifest allows.
    let manifest = fs::read_to_string(repository("Cargo.toml")).unwrap();
    let oldest = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    assert!(dockerfile.contains(&format!("FROM rust:{}-", oldest.trim_matches('"'))));
}
