"""Servers under a small load on loopback, and browsers with their sandbox."""

from __future__ import annotations

from row import Row, tidy

PAGE = tidy("""
    <!DOCTYPE html><meta charset="utf-8"><title>t</title><canvas id="c" width="600" height="400"></canvas><ul id="l"></ul><p id="p"></p>
    <script>
    const m = new Map();
    let t = 0;
    for (let n = 0; n < 300000; n++) { m.set(n * 7919 % 5003, new Uint8Array((n * 31) % 4000)); t += m.get(0).length; }
    const x = document.getElementById("c").getContext("2d");
    for (let i = 0; i < 2000; i++) { x.fillStyle = `rgb(${i % 256}, 9, 99)`; x.fillRect(i % 600, (i * 7) % 400, 40, 30); }
    for (let i = 0; i < 1500; i++) { const e = document.createElement("li"); e.textContent = "item " + i; document.getElementById("l").append(e); }
    document.getElementById("p").textContent = `${t} ${x.getImageData(5, 5, 1, 1).data.join()} ${document.getElementById("l").offsetHeight > 1000}`;
    </script>
""")


def server(name: str, apt: str, start: str, command: str, ready: str = "tcp", **more: object) -> Row:
    return Row(name, "servers", command, apt=tuple(apt.split()), server=start, ready=ready, **more)  # type: ignore[arg-type]


ROWS: list[Row] = [
    server(
        "postgresql", "postgresql",
        # Its own programs are not on the PATH.
        'PATH=$(echo /usr/lib/postgresql/*/bin):$PATH; initdb -D data -U u -A trust --no-sync >/dev/null && exec postgres -D data -k "$WORK" -p 5432 -c listen_addresses= -c fsync=off -c shared_buffers=32MB -c max_parallel_workers_per_gather=2 -c log_min_messages=panic',
        """PATH=$(echo /usr/lib/postgresql/*/bin):$PATH; export PGHOST=$WORK PGUSER=u PGDATABASE=postgres; until pg_isready -q; do sleep 0.05; done
        pgbench -q -i -s 1 2>/dev/null && pgbench -n -c 4 -j 1 -t 200 2>/dev/null | grep -E 'processed|failed'
        psql -qAt -c "select count(*), sum(aid) from pgbench_accounts" -c "select length(string_agg(md5(i::text), ',')) from generate_series(1, 60000) i" -c "select count(*) from (select a.aid from pgbench_accounts a join pgbench_accounts b using (bid) where a.aid < 60 and b.aid < 30000 order by 1) x" """,
        ready=".s.PGSQL.5432", user="nobody", stop="INT",
    ),
    server(
        "mariadb", "mariadb-server",
        'mariadb-install-db --no-defaults --datadir="$WORK/data" --auth-root-authentication-method=normal --skip-test-db >/dev/null 2>&1 && exec mariadbd --no-defaults --datadir="$WORK/data" --socket="$WORK/s" --pid-file="$WORK/pid" --skip-networking --innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=0 --silent-startup',
        """m() { mariadb --no-defaults -S s -u root -N "$@"; }
        m -e 'create database d; use d; create table t(a int primary key, b varchar(100), c int, key(c)) engine=innodb'
        m d -e "insert into t select seq, md5(seq), seq * 31 % 1009 from seq_1_to_20000"
        for i in 1 2 3; do m d -e 'select c, count(*), max(b) from t group by c order by 2 desc, 1 limit 2; select count(*) from t x join t y using (c) where x.a < 1000'; done
        m d -e 'update t set b = concat(b, b) where a % 3 = 0; delete from t where a % 5 = 0; select count(*), sum(length(b)) from t; check table t' """,
        ready="s", user="nobody",
    ),
    server(
        "redis", "redis-server redis-tools",
        'exec redis-server --port 0 --unixsocket "$WORK/s" --save "" --appendonly no --enable-debug-command local',
        """for t in set get lpush sadd hset zadd; do redis-benchmark -s s -q -n 8000 -r 5000 -d 200 -c 4 -t $t >/dev/null; done; redis-cli -s s flushall; redis-cli -s s debug populate 50000 k 300; redis-cli -s s bgsave; until redis-cli -s s info persistence | grep -q rdb_bgsave_in_progress:0; do sleep 0.05; done
        redis-cli -s s memory purge; redis-cli -s s debug digest""",
        ready="s",
    ),
    server(
        "redis-lru", "redis-server redis-tools",
        'exec redis-server --port 0 --unixsocket "$WORK/s" --save "" --appendonly no --maxmemory 20mb --maxmemory-policy allkeys-lru --lazyfree-lazy-eviction yes',
        'redis-benchmark -s s -q -n 40000 -r 100000 -d 1000 -c 8 -P 8 -t set >/dev/null; redis-cli -s s flushall async; redis-cli -s s set a b; redis-cli -s s get a; redis-cli -s s dbsize',
        ready="s",
    ),
    server(
        "memcached", "memcached", 'exec memcached -s "$WORK/s" -m 64 -t 2 -u root',
        'exec "$PYTHON" "$KIT/client.py"', ready="s",
        files={"client.py": tidy("""
            import socket
            s = socket.socket(socket.AF_UNIX)
            s.connect("s")
            f = s.makefile("rwb")
            got = 0
            for n in range(25_000):
                v = b"x" * (n * 31 % 5000)
                f.write(b"set k%d 0 0 %d\\r\\n%s\\r\\nget k%d\\r\\n" % (n % 3000, len(v), v, n % 3000))
                f.flush()
                assert f.readline() == b"STORED\\r\\n"
                while (line := f.readline()) != b"END\\r\\n":
                    got += len(line)
            print(got)
        """)},
    ),
    server(
        "nginx", "nginx-light apache2-utils",
        'mkdir -p logs; sed "s|PORT|$PORT|; s|WORK|$WORK|" "$KIT/nginx.conf" >nginx.conf; head -c 50000 /dev/zero >index.html; exec nginx -p "$WORK" -c nginx.conf -e stderr',
        'ab -q -n 15000 -c 20 -k "http://127.0.0.1:$PORT/" | grep -E "Complete|Failed|Non-2xx|Document Length"; ab -q -n 3000 -c 4 "http://127.0.0.1:$PORT/no" | grep -E "Complete|Non-2xx"',
        stop="QUIT",
        files={"nginx.conf": tidy("""
            daemon off;
            worker_processes 2;
            pid nginx.pid;
            error_log /dev/null;
            events { worker_connections 256; }
            http {
                access_log off;
                client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
                gzip on; gzip_proxied any;
                server { listen 127.0.0.1:PORT; root WORK; }
            }
        """)},
    ),
    server(
        "haproxy", "haproxy apache2-utils",
        'sed "s|PORT|$PORT|" "$KIT/haproxy.cfg" >haproxy.cfg; exec haproxy -f haproxy.cfg',
        'ab -q -n 20000 -c 10 -k "http://127.0.0.1:$PORT/" | grep -E "Complete|Failed|Non-2xx"; ab -q -n 3000 -c 10 "http://127.0.0.1:$PORT/" | grep -E "Complete|Failed"',
        stop="USR1",
        files={"haproxy.cfg": tidy("""
            global
                nbthread 2
                maxconn 200
            defaults
                mode http
                timeout connect 5s
                timeout client 5s
                timeout server 5s
            frontend f
                bind 127.0.0.1:PORT
                http-request return status 200 content-type text/plain lf-string "%[str(hello),hex] %[path]"
        """)},
    ),
    server(
        "lighttpd", "lighttpd apache2-utils",
        'head -c 200000 /dev/zero >index.html; printf \'server.port = %s\\nserver.bind = "127.0.0.1"\\nserver.document-root = "%s"\\nindex-file.names = ("index.html")\\n\' $PORT "$WORK" >l.conf; exec lighttpd -D -f l.conf',
        'ab -q -n 12000 -c 10 -k "http://127.0.0.1:$PORT/" | grep -E "Complete|Failed"; ab -q -n 3000 -c 10 "http://127.0.0.1:$PORT/no" | grep -E "Complete|Non-2xx"',
    ),
    server(
        "apache", "apache2-bin apache2-utils",
        'head -c 20000 /dev/zero >index.html; sed "s|PORT|$PORT|; s|WORK|$WORK|" "$KIT/a.conf" >a.conf; exec apache2 -X -d "$WORK" -f a.conf',
        'ab -q -n 8000 -c 8 -k "http://127.0.0.1:$PORT/index.html" | grep -E "Complete|Failed|Non-2xx"; ab -q -n 1500 -c 4 "http://127.0.0.1:$PORT/no" | grep -E "Complete|Non-2xx"',
        files={"a.conf": tidy("""
            LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
            LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
            LoadModule deflate_module /usr/lib/apache2/modules/mod_deflate.so
            LoadModule filter_module /usr/lib/apache2/modules/mod_filter.so
            ServerName localhost
            Listen 127.0.0.1:PORT
            PidFile WORK/pid
            ErrorLog /dev/null
            User nobody
            Group nogroup
            DocumentRoot WORK
            SetOutputFilter DEFLATE
        """)},
    ),
    server(
        "varnish", "varnish apache2-utils",
        'exec varnishd -F -j none -n "$WORK/v" -a "127.0.0.1:$PORT" -T none -f "$KIT/v.vcl" -s malloc,32m -p thread_pool_min=10 -p thread_pools=1',
        'ab -q -n 6000 -c 8 "http://127.0.0.1:$PORT/" | grep -E "Complete|Failed|Non-2xx"; ab -q -n 12000 -c 8 -k "http://127.0.0.1:$PORT/a" | grep -E "Complete|Failed|Non-2xx"',
        files={"v.vcl": tidy("""
            vcl 4.1;
            backend none none;
            sub vcl_recv { return (synth(200)); }
            sub vcl_synth { set resp.body = "hello " + req.url; return (deliver); }
        """)},
    ),
    server(
        "mosquitto", "mosquitto mosquitto-clients",
        'printf "listener %s 127.0.0.1\\nallow_anonymous true\\nlog_type none\\n" $PORT >m.conf; exec mosquitto -c m.conf',
        'mosquitto_pub -p $PORT -t keep -r -q 1 -m kept; for i in 1 2 3 4; do (seq 12000 | mosquitto_pub -p $PORT -t t$i -q 1 -l) & done; wait; mosquitto_sub -p $PORT -t keep -C 1',
    ),
    server(
        "beanstalkd", "beanstalkd", 'exec beanstalkd -l 127.0.0.1 -p $PORT',
        'exec "$PYTHON" "$KIT/client.py"',
        files={"client.py": tidy("""
            import os, socket
            f = socket.create_connection(("127.0.0.1", int(os.environ["PORT"]))).makefile("rwb")
            done = 0
            for n in range(30_000):
                v = b"x" * (n * 31 % 9000)
                f.write(b"put 1 0 60 %d\\r\\n%s\\r\\n" % (len(v), v))
                f.flush()
                assert f.readline().startswith(b"INSERTED")
                if n % 2:
                    f.write(b"reserve\\r\\n")
                    f.flush()
                    _, job, size = f.readline().split()
                    done += len(f.read(int(size) + 2))
                    f.write(b"delete %s\\r\\n" % job)
                    f.flush()
                    assert f.readline() == b"DELETED\\r\\n"
            print(done)
        """)},
        one_cpu=True,
    ),
    Row(
        "chromium", "browsers",
        # Its sandbox needs a user that is not root; what it warns of (D-Bus, GPU) is its stderr.
        'exec chromium --headless --disable-gpu --disable-dev-shm-usage --no-first-run --user-data-dir="$WORK/profile" --virtual-time-budget=5000 --dump-dom "file://$KIT/page.html" 2>err | grep -o \'<p id="p">.*\'',
        apt=("chromium", "chromium-sandbox"), files={"page.html": PAGE}, user="nobody",
    ),
    Row(
        "chromium-screenshot", "browsers",
        'chromium --headless --disable-gpu --disable-dev-shm-usage --no-first-run --user-data-dir="$WORK/profile" --window-size=900,700 --screenshot="$WORK/a.png" "file://$KIT/page.html" >err 2>&1 && convert a.png -depth 8 rgb:- | sha256sum',
        apt=("chromium", "chromium-sandbox", "imagemagick"), files={"page.html": PAGE}, user="nobody",
    ),
    Row(
        "firefox", "browsers",
        'mkdir profile && MOZ_DISABLE_AUTO_SAFE_MODE=1 firefox-esr --headless --no-remote --profile "$WORK/profile" --window-size 900,700 --screenshot "$WORK/a.png" "file://$KIT/page.html" >err 2>&1 && convert a.png -depth 8 rgb:- | sha256sum',
        apt=("firefox-esr", "imagemagick"), files={"page.html": PAGE}, user="nobody",
    ),
]
