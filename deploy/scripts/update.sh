#!/usr/bin/env bash
# Update Horae on this machine: package, copy of the database, tables, server, workers. Run as root from a newer clone;
# --dry-run only says what it would do.
set -euo pipefail

home=${HORAE_HOME:-/opt/horae}
venv=${HORAE_VENV:-$home/venv}
clone=$(cd "$(dirname "$0")/../.." && pwd)
package=${HORAE_PACKAGE:-${clone}[server,postgres]}
config=${HORAE_CONFIG:-/etc/horae}
logs=${HORAE_LOGS:-/var/log/horae}
copies=${HORAE_COPIES:-/var/lib/horae/copies}
user=${HORAE_USER:-horae}
server=horae-server.service
worker=horae-worker@.service
dry_run=no

usage() {
    cat <<END
Usage: update.sh [--dry-run] [--package SPEC] [--venv DIR]

  --dry-run        say what would be done, and do nothing
  --package SPEC   what to install: a name with extras, a wheel, a folder ($package)
  --venv DIR       where it is installed ($venv)

HORAE_CONFIG ($config), HORAE_LOGS ($logs), HORAE_COPIES ($copies) and HORAE_USER ($user) say where the rest is.
END
}

while [ $# -gt 0 ]; do
    case $1 in
        --dry-run) dry_run=yes ;;
        --package) package=${2:?--package needs a value}; shift ;;
        --venv) venv=${2:?--venv needs a value}; shift ;;
        -h | --help) usage; exit 0 ;;
        *) echo "update.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done

say() { printf '%s\n' "$*"; }

run() {
    say "+ $*"
    if [ "$dry_run" = no ]; then "$@"; fi
}

# As the user whom the units run as, so that a new SQLite file is theirs; the URL is no argument, which all could read.
horae() {
    say "+ $venv/bin/horae $* (as $user)"
    if [ "$dry_run" = yes ]; then return; fi
    if [ "$(id -u)" -eq 0 ] && id -u "$user" > /dev/null 2>&1; then
        runuser -u "$user" -- "$venv/bin/horae" "$@"
    else
        "$venv/bin/horae" "$@"
    fi
}

# Before the tables change. A server has tools of its own for that; this script does not know where its copies belong.
copy() {
    case ${HORAE_DATABASE_URL:-} in
        sqlite:*)
            if [ ! -e "${HORAE_DATABASE_URL#sqlite:///}" ]; then return; fi
            make_folder "$copies"
            horae db backup "$copies/before-update-$(date -u +%Y%m%dT%H%M%SZ).db"
            ;;
        *) say "WARN: no copy was made; use the tools of your database (docs/how-to/back-up.md)." >&2 ;;
    esac
}

make_folder() {
    if [ "$(id -u)" -eq 0 ] && id -u "$user" > /dev/null 2>&1; then
        run install -d -m 0750 -o "$user" -g "$user" "$1"
    else
        run install -d -m 0750 "$1"
    fi
}

if [ -r "$config/database-url" ]; then
    HORAE_DATABASE_URL=$(cat "$config/database-url")
    export HORAE_DATABASE_URL
fi

if [ ! -x "$venv/bin/pip" ]; then
    run python3 -m venv "$venv"
fi
run "$venv/bin/pip" install --quiet --upgrade "$package"
copy
horae db migrate
run systemctl daemon-reload
run systemctl restart "$server"

if systemctl cat "$worker" > /dev/null 2>&1; then
    make_folder "$logs"
    run systemctl restart "${worker%.service}*"
else
    say "WARN: $worker is not installed; nothing runs jobs on this machine. See deploy/systemd/README.md." >&2
fi
say "done: $("$venv/bin/horae" --version 2> /dev/null || echo 'horae, not installed yet')"
