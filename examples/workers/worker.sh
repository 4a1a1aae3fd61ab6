#!/usr/bin/env bash
# A complete worker in plain shell: curl and jq, nothing else.
#
#     export HORAE_URL=http://127.0.0.1:8600 HORAE_TOKEN=horae_…
#     examples/workers/worker.sh ./handle
#
# For each job it runs the command that it is given, with the job as JSON on standard input. What the command prints is
# the result (as JSON if it is JSON, else as text); if it ends with an error, the last lines of its standard error are
# the error, and the job is tried again. SIGTERM lets the job at hand end first.
set -u

: "${HORAE_URL:?the address of the service}" "${HORAE_TOKEN:?a token with the scope worker}"
QUEUES=${HORAE_QUEUES:-scheduler}
WORKER=${HORAE_WORKER_ID:-$(hostname):$$}
LEASE=${HORAE_LEASE:-60} # seconds; renewed at a third of it
[ $# -gt 0 ] || { echo "usage: $0 command [argument …]" >&2; exit 2; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
stopping=
trap 'stopping=yes' TERM INT # a pull is not broken off: its answer may bring a job

# The token goes through a file of our own, so that it is in nobody's list of processes.
(umask 077 && printf 'header = "Authorization: Bearer %s"\n' "$HORAE_TOKEN" > "$folder/curl")

ask=(curl --config "$folder/curl" --silent --show-error --fail-with-body --max-time 45
    --header 'Content-Type: application/json')

tell() { # path, body on standard input; again until somebody listens: the token makes a repetition harmless
    cat > "$folder/body"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        "${ask[@]}" --data-binary @"$folder/body" "$HORAE_URL$1" > "$folder/answer" && return
        case $(jq -r '.status // 0' < "$folder/answer" 2> /dev/null) in 4??) break ;; esac
        sleep 2
    done
    echo "$1 was refused: $(cat "$folder/answer")" >&2
}

renew() { # job, token; keeps the job while it runs
    local nap
    trap 'kill "$nap" 2> /dev/null; exit' TERM
    while :; do
        sleep $((LEASE / 3)) &
        nap=$!
        wait "$nap"
        "${ask[@]}" --data "{\"token\": $2, \"lease_sec\": $LEASE}" "$HORAE_URL/scheduler/jobs/$1/renew"
    done
}

run() { # a job as JSON, and the command
    local job=$1 id token renewer
    shift
    id=$(jq -r .job_id <<< "$job")
    token=$(jq .token <<< "$job")
    echo "$id: $(jq -r .handler <<< "$job")"
    renew "$id" "$token" > /dev/null 2>&1 &
    renewer=$!
    if "$@" <<< "$job" > "$folder/out" 2> "$folder/error"; then
        jq -Rs --argjson token "$token" '{token: $token, result: (. as $text | try fromjson catch $text)}' \
            < "$folder/out" | tell "/scheduler/jobs/$id/ack"
    else
        tail -n 20 "$folder/error" | jq -Rs --argjson token "$token" \
            '{token: $token, error: (if . == "" then "it ended with an error" else . end)}' \
            | tell "/scheduler/jobs/$id/fail"
    fi
    kill "$renewer" 2> /dev/null
    wait "$renewer" 2> /dev/null
}

jq -n --arg worker "$WORKER" --arg queues "$QUEUES" --argjson lease "$LEASE" \
    '{worker_id: $worker, queues: ($queues | split(",")), limit: 1, lease_sec: $lease, wait: 5}' > "$folder/pull"
echo "serving $QUEUES as $WORKER"
while [ -z "$stopping" ]; do
    if "${ask[@]}" --data-binary @"$folder/pull" "$HORAE_URL/scheduler/jobs/pull" > "$folder/jobs"; then
        job=$(jq -c '.jobs[0] // empty' < "$folder/jobs")
        [ -z "$job" ] || run "$job" "$@"
    elif [ -z "$stopping" ]; then
        echo "no answer from the server: $(cat "$folder/jobs")" >&2
        sleep 2
    fi
done
echo ended
