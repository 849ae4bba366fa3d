#!/bin/bash
# Copies the primary at the first start, and follows it. `docker compose exec standby pg_ctl promote` makes it the
# primary; it then waits for no standby, until it is given one.
set -euo pipefail
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  until pg_basebackup --pgdata "$PGDATA" --write-recovery-conf --checkpoint fast \
      --dbname "host=primary user=kew application_name=standby"; do
    find "$PGDATA" -mindepth 1 -delete
    sleep 1
  done
  # The last line of a setting counts.
  echo "synchronous_standby_names = ''" >> "$PGDATA/postgresql.auto.conf"
  chmod 700 "$PGDATA"
fi
exec docker-entrypoint.sh postgres
