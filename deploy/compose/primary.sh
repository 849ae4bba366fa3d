#!/bin/bash
# Once, when the primary's database is made: lets the standby copy it, and has every commit wait for the standby from
# the next start on. (Now would be too early: there is none yet.)
set -euo pipefail
echo "host replication kew samenet scram-sha-256" >> "$PGDATA/pg_hba.conf"
psql --username kew --dbname kew --set ON_ERROR_STOP=1 --quiet \
  --command "ALTER SYSTEM SET synchronous_standby_names = 'standby'"
