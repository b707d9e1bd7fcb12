//! Signed packs: mounted if the right key signed this content, and not otherwise.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and nothing here runs on a runtime"
)]

use std::{fs, path::Path, process::Command};

use crate::common::{Folder, mount, tiles};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::{Engine, engine::general_purpose::STANDARD};
use packs::{InvalidKey, MountError, MountOptions, Pack, PublicKey, SignatureError, signed_text};

fn pem(key: &[u8]) -> String {
    let der = [b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", key].concat();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

fn mount_signed(path: &Path, key: &str) -> Result<Pack, MountError> {
    let signer = Some(PublicKey::from_pem(key.as_bytes()).unwrap());
    Pack::mount(path, MountOptions { signer, ..MountOptions::default() })
}

#[test]
fn only_a_signature_of_this_key_over_this_content_counts() {
    let folder = Folder::new();
    let keys = Ed25519KeyPair::generate().unwrap();
    let key = pem(keys.public_key().as_ref());
    for path in folder.both(&tiles(2)) {
        let sig = format!("{}.sig", path.display());
        let id = mount(&path).unwrap().info().id;
        let refused = |key: &str| match mount_signed(&path, key) {
            Err(MountError::Signature(error)) => error,
            other => panic!("{other:?}"),
        };
        assert!(matches!(refused(&key), SignatureError::Missing { .. }));
        let signature = keys.sign(signed_text(id).as_bytes());
        fs::write(&sig, signature.as_ref()).unwrap();
        assert!(mount_signed(&path, &key).is_ok());

        let stranger = Ed25519KeyPair::generate().unwrap();
        assert!(matches!(refused(&pem(stranger.public_key().as_ref())), SignatureError::Wrong { .. }));
        for (other, wrong) in [(63, "short"), (65, "long")] {
            let bytes: Vec<_> = signature.as_ref().iter().copied().cycle().take(other).collect();
            fs::write(&sig, bytes).unwrap();
            assert!(matches!(refused(&key), SignatureError::Length { .. }), "{wrong}");
        }
        // Over the bare name, as if it had been signed for something else.
        fs::write(&sig, keys.sign(id.to_string().as_bytes()).as_ref()).unwrap();
        assert!(refused(&key).to_string().ends_with(".sig is not by the expected key over this content"));
    }
}

#[test]
fn a_key_is_ed25519_in_pem() {
    assert!(PublicKey::from_pem(pem(&[7; 32]).as_bytes()).is_ok());
    for wrong in [pem(&[7; 31]), pem(&[7; 33]), String::new(), "ssh-ed25519 AAAA".to_owned()] {
        assert_eq!(PublicKey::from_pem(wrong.as_bytes()), Err(InvalidKey));
    }
}

/// What docs/packs.md tells people to type.
#[test]
fn openssl_signs_packs() {
    let folder = Folder::new();
    let path = folder.pmtiles("a.pmtiles", &tiles(1));
    let id = mount(&path).unwrap().info().id;
    fs::write(folder.path("text"), signed_text(id)).unwrap();
    for line in [
        "genpkey -algorithm ed25519 -out key.pem",
        "pkey -in key.pem -pubout -out key.pub",
        "pkeyutl -sign -rawin -inkey key.pem -in text -out a.pmtiles.sig",
    ] {
        let Ok(output) = Command::new("openssl").args(line.split(' ')).current_dir(folder.path("")).output()
        else {
            println!("openssl is not installed: nothing was tested");
            return;
        };
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    mount_signed(&path, &fs::read_to_string(folder.path("key.pub")).unwrap()).unwrap();
}
