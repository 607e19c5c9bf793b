"""Signatures of identities: certificates of sigstore for a few minutes, with the proof that a
public log has them.
"""

from __future__ import annotations

import json
import os
from functools import cached_property
from typing import Any

from devmod.errors import FetchError, ToolchainNotFoundError, describe_error, not_installed
from devmod_trust._envelope import PAYLOAD_TYPE, Envelope, Signature

#: The field of a signature with sigstore's bundle.
FIELD = "sigstore"
#: The variable of sigstore's own command with the token of an identity.
_TOKEN = "SIGSTORE_IDENTITY_TOKEN"  # noqa: S105 - its name


class Identity:
    """An identity that checks signatures, as `PublicKey` does: the name in a certificate, and the
    issuer that has vouched for it.

    Parameters
    ----------
    issuer, identity
        Such as "https://token.actions.githubusercontent.com" and the URL of a workflow, or an
        address of mail.
    config
        The path of the configuration of a private sigstore; "": the public one, of which the wheel
        sigstore has the keys.

    Attributes
    ----------
    data : bytes
        Both, to compare identities.
    """

    def __init__(self, issuer: str, identity: str, config: str) -> None:
        self._issuer = issuer
        self._identity = identity
        self._config = config
        self.data = json.dumps([issuer, identity]).encode()

    def has_signed(self, envelope: Envelope) -> bool:
        """Return whether one of the signatures is of this identity. Nothing is requested from a
        server.

        Raises
        ------
        ValueError
            sigstore is not installed, or its configuration is invalid.
        """
        bundles = [each.extra[FIELD] for each in envelope.signatures if FIELD in each.extra]
        return any(self._has_signed(bundle, envelope) for bundle in bundles)

    def _has_signed(self, bundle: object, envelope: Envelope) -> bool:
        verifier, wanted = self._verifier
        from sigstore.models import Bundle

        try:
            found = verifier.verify_dsse(Bundle.from_json(json.dumps(bundle)), wanted)
        except Exception:  # noqa: BLE001 - the bundle is a stranger's, and sigstore raises errors of several libraries
            return False
        return bool(found == (PAYLOAD_TYPE, envelope.payload))

    @cached_property
    def _verifier(self) -> tuple[Any, Any]:
        try:
            from sigstore.verify import Verifier
            from sigstore.verify.policy import Identity as Wanted
        except ImportError:
            raise ValueError(_missing()) from None
        wanted = Wanted(identity=self._identity, issuer=self._issuer)
        try:
            return Verifier(
                trusted_root=_configuration(self._config, offline=True).trusted_root
            ), wanted
        except Exception as error:  # noqa: BLE001 - sigstore raises errors of several libraries
            raise ValueError(
                f"sigstore's configuration {self._config!r} cannot be used: {describe_error(error)}"
            ) from None


def sign(envelope: Envelope, config: str) -> Signature:
    """Return a signature by the identity of a CI job, of SIGSTORE_IDENTITY_TOKEN, or of who logs in
    in a browser.

    Raises
    ------
    ToolchainNotFoundError
        sigstore is not installed.
    FetchError
        A service cannot be reached or refuses.
    """
    try:
        from sigstore.dsse import Statement
        from sigstore.oidc import IdentityToken, Issuer, detect_credential
        from sigstore.sign import SigningContext
    except ImportError:
        raise ToolchainNotFoundError(_missing()) from None
    try:
        trust = _configuration(config, offline=False)
        text = os.environ.get(_TOKEN) or detect_credential()
        if text:
            token = IdentityToken(text)
        else:
            token = Issuer(trust.signing_config.get_oidc_url()).identity_token()
        with SigningContext.from_trust_config(trust).signer(token) as signer:
            bundle = signer.sign_dsse(Statement(envelope.payload))
    except Exception as error:  # sigstore raises errors of several libraries
        raise FetchError(f"sigstore cannot sign: {describe_error(error)}") from error
    return Signature(
        f"sigstore:{token.identity}", bundle.signature, {FIELD: json.loads(bundle.to_json())}
    )


def _configuration(path: str, *, offline: bool) -> Any:
    from sigstore.models import ClientTrustConfig

    if not path:
        return ClientTrustConfig.production(offline=offline)
    with open(path, encoding="utf-8") as file:
        return ClientTrustConfig.from_json(file.read())


def _missing() -> str:
    return not_installed("sigstore", "devmod-trust[sigstore]", "sigstore")
