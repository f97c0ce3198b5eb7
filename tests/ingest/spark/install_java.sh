#!/bin/sh
# Spark runs on Java 17 or later. Where there is none, root gets Debian's; anyone else is told what to do.
command -v java >/dev/null && exit 0
[ -n "$JAVA_HOME" ] && [ -x "$JAVA_HOME/bin/java" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing Java 17 for Spark"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless && exit 0
fi
echo "No Java here, which Spark needs. Install it: apt-get install openjdk-17-jre-headless" >&2
exit 1
