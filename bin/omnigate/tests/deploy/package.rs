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
    let written = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let package = written.into_iter().find(|path| path.extension().is_some_and(|end| end == "deb")).unwrap();
    checksums_are_right(dir.path());
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
        "usr/share/doc/omnigate/sbom.cdx.json",
    ] {
        assert!(root.join(path).exists(), "{path} is missing");
    }
    let configuration = fs::read_to_string(root.join("DEBIAN/conffiles")).unwrap();
    let configuration = root.join(configuration.trim().trim_start_matches('/'));
    let ran = run(omnigate(dir.path(), &["check", "--config", configuration.to_str().unwrap()]));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    // The routes are the operator's to write; nothing else is wrong.
    let mut warnings = ran.err.lines().filter(|line| line.starts_with("warning:"));
    assert!(warnings.all(|line| line.contains("there is no route")), "{}", ran.err);
    scripts_are_sound(&root);
    materials_are_listed(&root);
}

/// The package and its bill of materials are those that the list of checksums names.
fn checksums_are_right(out: &Path) {
    let written = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    let list = written.into_iter().find(|path| path.extension().is_some_and(|end| end == "sha256")).unwrap();
    let text = fs::read_to_string(&list).unwrap();
    assert!(text.contains(".deb\n") && text.contains(".cdx.json\n"), "{text}");
    tool(Command::new("sha256sum").arg("--check").arg("--quiet").arg(&list).current_dir(out), "coreutils");
}

/// The bill of materials names what is linked, with checksums, and nothing that only tests need.
fn materials_are_listed(root: &Path) {
    let text = fs::read_to_string(root.join("usr/share/doc/omnigate/sbom.cdx.json")).unwrap();
    let bill: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((bill["bomFormat"].as_str(), bill["specVersion"].as_str()), (Some("CycloneDX"), Some("1.5")));
    let components = bill["components"].as_array().unwrap();
    let find = |name: &str| components.iter().find(|component| component["name"] == name);
    assert_eq!(find("rustls").unwrap()["hashes"][0]["content"].as_str().unwrap().len(), 64);
    assert!(find("svc-gateway").is_some() && find("seccompiler").is_some());
    // For tests, for features that only tests turn on, and for the compiler.
    for absent in ["proptest", "tempfile", "ring", "syn", "serde_derive"] {
        assert!(find(absent).is_none(), "{absent} is not linked");
    }
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
    // What is shipped has no shell: it comes from nothing else than an image without one.
    let shipped = dockerfile.lines().filter_map(|line| line.strip_prefix("FROM ")).next_back().unwrap();
    assert!(shipped.starts_with("gcr.io/distroless/cc-") && !shipped.contains("debug"), "{shipped}");
    // The compiler in it is the oldest that the manifest allows.
    let manifest = fs::read_to_string(repository("Cargo.toml")).unwrap();
    let oldest = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    assert!(dockerfile.contains(&format!("FROM rust:{}-", oldest.trim_matches('"'))));
}
