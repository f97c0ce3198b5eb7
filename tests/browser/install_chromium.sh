#!/bin/sh
# The browser tests drive Chromium. Where there is none, root gets Debian's; anyone else is told
# what to do. Always ends with 0: without Chromium the browser tests fail, the others still run.
for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing chromium for the browser tests"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    for package in chromium-headless-shell chromium; do
        apt-get install -y -qq --no-install-recommends "$package" && exit 0
    done
fi
echo "No Chromium here, so the browser tests will fail. Install it: apt-get install chromium-headless-shell" >&2
