"""Encryption at rest: an encrypting log, a key for each fork family, providers of keys.

    log.py         the log that encrypts what goes into another one
    envelope.py    what of an append and a head is sealed, and how it is opened
    family.py      one family's key, and what is encrypted and named with it
    key_ring.py    the keys that are in use
    keys.py        providers of keys
    key_file.py    the provider that keeps them in a local file

How ciphertext lies in a log is `eventlog/codec/payload.py`; whether a store is encrypted is decided in `eventlog/open_log.py`.
Needs the library `cryptography` (`everdelta[encryption]`), which is imported when the first key is used.
"""
