"""HTTP: limits on connections and requests, answers, headers, the page cache, metrics."""
