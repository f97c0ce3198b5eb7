"""HTTP: limits on connections and requests, answers, headers, the page cache, metrics.

One layer around the app in each module, so that a request passes them in the order of app.server;
hence so many files.
"""
