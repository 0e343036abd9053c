"""Certificates for tests, made with plain openssl commands as the documentation of Eclipse Ankaios does."""

import subprocess
from pathlib import Path

from ankaios.common.config import PemMaterial, load_pem_material, require_security

KEY_OPTIONS = {
    "ed25519": ["-algorithm", "ed25519"],
    "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
    "ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
}


class Authority:
    """A certificate authority in a folder, which issues certificates to servers, agents and CLIs."""

    def __init__(self, folder: Path, algorithm: str = "ed25519") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._algorithm = algorithm
        self.certificate = folder / "ca.pem"
        self._key = self._new_key("ca")
        _openssl("req", "-x509", "-new", "-key", self._key, "-subj", "/CN=test-ca", "-out", self.certificate)

    def server(self, name: str = "ank-server", days: str = "30") -> PemMaterial:
        return self.issue("server", san=f"DNS:{name}", usage="serverAuth", days=days)

    def agent(self, *names: str, days: str = "30", role: str = "") -> PemMaterial:
        san = ",".join(f"DNS:{name}" for name in names)
        return self.issue("agent", san=san, usage="clientAuth", days=days, role=role)

    def cli(self, role: str = "") -> PemMaterial:
        return self.issue("cli", san="", usage="clientAuth", role=role)

    def revocation_list(self, *revoked: PemMaterial) -> Path:
        """A file with the revocation list; it replaces the one before."""
        database, config, result = (self.folder / name for name in ("index.txt", "ca.conf", "crl.pem"))
        database.touch()
        config.write_text(f"[ca]\ndefault_ca = it\n[it]\ndatabase = {database}\ndefault_md = sha256\n")
        signer = ("-config", config, "-cert", self.certificate, "-keyfile", self._key)
        for material in revoked:
            _openssl("ca", *signer, "-revoke", material.crt.origin)
        fresh = self.folder / "new-crl.pem"
        _openssl("ca", *signer, "-gencrl", "-crldays", "30", "-out", fresh)
        fresh.chmod(0o644)
        return fresh.replace(result)

    def issue(
        self,
        who: str,
        *,
        san: str,
        usage: str,
        days: str = "30",
        chain: Path | None = None,
        ca: Path | None = None,
        role: str = "",
    ) -> PemMaterial:
        """`chain` is sent with the certificate; `ca` is trusted instead of this authority."""
        certificate, key = self.certificate_files(who, san=san, usage=usage, days=days, role=role)
        if chain is not None:
            certificate.write_text(certificate.read_text() + chain.read_text())
        flags = {"ca_pem": ca or self.certificate, "crt_pem": certificate, "key_pem": key}
        material = require_security(load_pem_material(flags, "TEST", {}, environ={}), False)
        assert material is not None
        return material

    def certificate_files(
        self, who: str, *, san: str, usage: str, days: str = "30", role: str = ""
    ) -> tuple[Path, Path]:
        count = len(list(self.folder.glob("*.crt")))
        stem = self.folder / f"{who}-{count}"
        key = self._new_key(stem.name)
        request, extensions, certificate = (stem.with_suffix(f".{kind}") for kind in ("csr", "ext", "crt"))
        _openssl("req", "-new", "-key", key, "-subj", f"/CN={who}" + (f"/OU={role}" if role else ""), "-out", request)
        extensions.write_text(f"extendedKeyUsage={usage}\n" + (f"subjectAltName={san}\n" if san else ""))
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", days, "-extfile", extensions, "-out", certificate),
        )
        return certificate, key

    def _new_key(self, name: str) -> Path:
        path = self.folder / f"{name}.key"
        _openssl("genpkey", *KEY_OPTIONS[self._algorithm], "-out", path)
        path.chmod(0o600)
        return path


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)
