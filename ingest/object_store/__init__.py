"""Run folders in S3-compatible storage: addresses, a local mirror of a bounded size, uploads."""
