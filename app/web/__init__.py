"""HTTP: limits of connections and requests, answers, headers, caches of pages, metrics."""
