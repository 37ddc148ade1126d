//! TLS for scrapes: a certificate and a key in files, which may be renewed while the agent runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::reloaded_files::ReloadedFiles;
use crate::small_file;

/// The settings that connections begin with.
pub type TlsFiles = ReloadedFiles<Arc<ServerConfig>>;

impl TlsFiles {
    /// Reads the certificate and the key.
    ///
    /// # Errors
    ///
    /// One can't be read, is no PEM, or the key is not the certificate's.
    pub fn read(cert: &Path, key: &Path) -> anyhow::Result<Self> {
        let of = |paths: &[PathBuf]| read_server_config(&paths[0], &paths[1]);
        Self::read_by(vec![cert.to_owned(), key.to_owned()], of)
    }
}

fn read_server_config(cert: &Path, key: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    small_file::ensure_small_file(cert)?;
    small_file::ensure_small_file(key)?;
    let in_cert = || format!("read the certificate in {}", cert.display());
    let chain = CertificateDer::pem_file_iter(cert).with_context(in_cert)?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().with_context(in_cert)?;
    if chain.is_empty() {
        bail!("{}: there is no certificate in it (PEM)", cert.display());
    }
    let secret = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("read the key in {}", key.display()))?;
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("TLS")?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .with_context(|| {
                format!(
                    "is the key in {} that of {}?",
                    key.display(),
                    cert.display()
                )
            })?;
    Ok(Arc::new(config))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::SystemTime;

    use super::*;

    /// A certificate for localhost that it has signed itself, and its key: in files of this directory.
    pub(crate) fn pair(dir: &Path, name: &str) -> [PathBuf; 2] {
        let made =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let paths = ["crt", "key"].map(|end| dir.join(format!("{name}.{end}")));
        std::fs::write(&paths[0], made.cert.pem()).expect("written");
        std::fs::write(&paths[1], made.signing_key.serialize_pem()).expect("written");
        paths
    }

    /// Check that what does not fit is told with its file, and that renewed files count from then on, but not half of them.
    #[test]
    fn files_are_read_and_renewed() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        let ([cert, key], [cert2, key2]) = (pair(dir, "a"), pair(dir, "b"));
        let wrong = |cert: &Path, key: &Path| {
            format!("{:#}", TlsFiles::read(cert, key).expect_err("refused"))
        };
        assert!(
            wrong(&cert, &key2).contains("b.key"),
            "{}",
            wrong(&cert, &key2)
        );
        assert!(
            wrong(&key, &key).contains("no certificate"),
            "{}",
            wrong(&key, &key)
        );
        assert!(wrong(&dir.join("none"), &key).contains("none"));
        assert!(wrong(&cert, &cert).contains("read the key"));

        let tls = TlsFiles::read(&cert, &key).expect("both are right");
        let first = tls.get();
        assert!(Arc::ptr_eq(&first, &tls.get()));
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        let renew = |from: &Path, to: &Path| {
            std::fs::copy(from, to).expect("copied");
            std::fs::File::options()
                .append(true)
                .open(to)
                .and_then(|f| f.set_modified(later))
                .expect("a time");
        };
        renew(&cert2, &cert);
        assert!(Arc::ptr_eq(&first, &tls.get()));
        renew(&key2, &key);
        assert!(!Arc::ptr_eq(&first, &tls.get()));
    }
}
