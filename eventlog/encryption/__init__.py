"""Encryption at rest: an encrypting log, keys of fork families, providers of keys.

    log.py         log that encrypts what it stores in another log
    envelope.py    encrypted form of appends and heads
    change.py      change of a session's stored appends
    family.py      key of one family, and what is encrypted and named with it
    key_ring.py    keys in use
    keys.py        protocol of key providers
    key_file.py    provider that keeps keys in a local file

`eventlog/codec/payload.py` has the bytes of ciphertext; `eventlog/open_log.py` decides whether a
store is encrypted.  Encryption needs the library `cryptography` (`pip install '.[encryption]'`),
which is imported when the first key is used.
"""
