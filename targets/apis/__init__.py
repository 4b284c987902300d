"""One file an API; `targets.apis.catalog` is their table."""
