"""Encryption at rest: a log before a log (`log.py`), one key for each family of forks (`family.py`), and where keys come from.

    log.py         the log that encrypts what goes into another one;  belongings.py what of it is one session's
    envelope.py    what of an append and a head is sealed, and how it is opened
    family.py      one family's key, and what is encrypted and named with it
    ring.py        the keys that are in use
    keys.py        providers of keys;  keyfile.py the one in a local file

How ciphertext lies in a log is `eventlog/codec/payload.py`; whether a store is encrypted is decided in `eventlog/open_log.py`.
Needs the library `cryptography` (`everdelta[encryption]`), which is imported when the first key is used.
"""
