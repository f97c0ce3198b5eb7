"""Small real jobs of training frameworks, with and without hooks: `make test-frameworks`."""
