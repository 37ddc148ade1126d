"""Packages of npm with native parts: each is loaded and used a little."""

from __future__ import annotations

from row import Row, node

ROWS: list[Row] = [
    node("better-sqlite3", "better-sqlite3@12.11.1", """
        import Database from "better-sqlite3";
        const d = new Database(":memory:");
        d.exec("create table t(a integer primary key, b text)");
        const put = d.prepare("insert into t values(?, ?)");
        d.transaction(() => { for (let n = 0; n < 200_000; n++) put.run(n, "x".repeat(n % 100)); })();
        console.log(d.prepare("select count(*) c, sum(length(b)) s from t where a % 7 = 3").get());
        d.close();
    """),
    node("sqlite3", "sqlite3@6.0.1", """
        import sqlite3 from "sqlite3";
        const d = new sqlite3.Database(":memory:");
        d.serialize(() => {
          d.run("create table t(a, b)");
          d.run("begin");
          const put = d.prepare("insert into t values(?, ?)");
          for (let n = 0; n < 20_000; n++) put.run(n, "x".repeat(n % 100));
          put.finalize();
          d.run("commit");
          d.get("select count(*) c, sum(length(b)) s from t where a % 7 = 3", (e, r) => console.log(e, r));
        });
        d.close();
    """),
    node("sharp", "sharp@0.35.5", """
        import sharp from "sharp";
        import { createHash } from "node:crypto";
        const w = 1600, h = 1200, raw = Buffer.alloc(w * h * 3, 0).map((_, i) => (i * 7919) % 251);
        const h1 = createHash("sha256");
        for (let n = 0; n < 4; n++) {
          const png = await sharp(raw, { raw: { width: w, height: h, channels: 3 } }).resize(600 + n).blur(2).rotate(90).png().toBuffer();
          h1.update(await sharp(png).raw().toBuffer());
          h1.update(await sharp(png).webp({ quality: 50, effort: 1 }).toBuffer());
        }
        console.log(h1.digest("hex"));
    """),
    node("esbuild", "esbuild@0.28.2", """
        import * as esbuild from "esbuild";
        const code = Array.from({ length: 3000 }, (_, i) => `export function f${i}(a: number, b?: string) { return a?.toFixed(${i % 9}) ?? [b, ${i}] }`).join("\\n");
        let n = 0;
        for (let i = 0; i < 8; i++) n += (await esbuild.transform(code, { loader: "ts", minify: true, target: "es2017" })).code.length;
        console.log(n);
        await esbuild.stop();
    """),
    node("swc", "@swc/core@1.16.22", """
        import swc from "@swc/core";
        const code = Array.from({ length: 1500 }, (_, i) => `export class C${i} { #a = ${i}; get(b?: string) { return this.#a ?? b } }`).join("\\n");
        let n = 0;
        for (let i = 0; i < 4; i++) n += swc.transformSync(code, { jsc: { parser: { syntax: "typescript" }, target: "es2017" }, minify: true }).code.length;
        const all = await Promise.all([1, 2, 3, 4].map(() => swc.minify(code.replaceAll("?: string", ""), { compress: true, mangle: true, module: true })));
        console.log(n, all.map(a => a.code.length));
    """),
    node("bcrypt", "bcrypt@6.0.0", """
        import bcrypt from "bcrypt";
        const salt = "$2b$08$abcdefghijklmnopqrstuu";
        console.log((await Promise.all(Array.from({ length: 40 }, (_, n) => bcrypt.hash("word" + n, salt)))).at(-1));
    """),
    node("argon2", "argon2@0.45.1", """
        import argon2 from "argon2";
        let h;
        for (let n = 0; n < 12; n++) h = await argon2.hash("word" + n, { salt: Buffer.alloc(16), memoryCost: 32768, timeCost: 2, parallelism: 2 });
        console.log(h, await argon2.verify(h, "word11"));
    """),
    node("canvas", "@napi-rs/canvas@1.1.1", """
        import { createCanvas } from "@napi-rs/canvas";
        import { createHash } from "node:crypto";
        const h = createHash("sha256");
        for (let n = 0; n < 8; n++) {
          const c = createCanvas(900, 700), x = c.getContext("2d");
          for (let i = 0; i < 400; i++) {
            x.fillStyle = `rgb(${i % 256}, ${(i * 7) % 256}, ${n * 20})`;
            x.beginPath();
            x.arc((i * 7919) % 900, (i * 104729) % 700, 5 + (i % 60), 0, 6);
            x.fill();
          }
          h.update(Buffer.from(x.getImageData(0, 0, 900, 700).data));
          await c.encode("png");
        }
        console.log(h.digest("hex"));
    """),
    node("msgpackr", "msgpackr@2.1.4 msgpackr-extract", """
        import { pack, unpack, isNativeAccelerationEnabled } from "msgpackr";
        const data = Array.from({ length: 20_000 }, (_, i) => ({ id: i, name: "name " + "ä".repeat(i % 40), list: [i, i / 7, null] }));
        let raw, back;
        for (let n = 0; n < 30; n++) { raw = pack(data); back = unpack(raw); }
        console.log(isNativeAccelerationEnabled, raw.length, back.length, JSON.stringify(back) === JSON.stringify(data));
    """),
    node("lightningcss", "lightningcss@1.33.0", """
        import { transform } from "lightningcss";
        const css = Array.from({ length: 6000 }, (_, i) => `.a${i} > .b { color: rgb(${i % 256} 1 2 / 50%); &:hover { margin: ${i}px ${i}px; inset: 0 } }`).join("\\n");
        let n = 0;
        for (let i = 0; i < 12; i++) n += transform({ filename: "a.css", code: Buffer.from(css), minify: true, targets: { chrome: 80 << 16 } }).code.length;
        console.log(n);
    """),
    node("parcel-watcher", "@parcel/watcher@2.6.0", """
        import watcher from "@parcel/watcher";
        import fs from "node:fs";
        const seen = new Set();
        let done;
        const all = new Promise(r => { done = r; });
        const s = await watcher.subscribe(process.cwd(), (e, events) => {
          for (const one of events) seen.add(one.path);
          if (seen.size >= 600) done();
        });
        for (let n = 0; n < 600; n++) {
          fs.writeFileSync(`f${n}`, "x".repeat(n));
          if (n % 20 == 0) await new Promise(r => setTimeout(r, 5));
        }
        await all;
        await s.unsubscribe();
        console.log(seen.size);
    """),
    node("ws", "ws@8.23.0 utf-8-validate@6.0.6 bufferutil@4.1.0", """
        import { WebSocketServer, WebSocket } from "ws";
        import { createRequire } from "node:module";
        const require = createRequire(import.meta.url);
        console.log(require("utf-8-validate")(Buffer.from("äöü")), typeof require("bufferutil").mask);
        const s = new WebSocketServer({ port: 0, host: "127.0.0.1" });
        s.on("connection", c => c.on("message", m => c.send(m)));
        await new Promise(r => s.on("listening", r));
        const c = new WebSocket(`ws://127.0.0.1:${s.address().port}`);
        let n = 0, bytes = 0;
        c.on("open", () => c.send("ä"));
        c.on("message", m => {
          bytes += m.length;
          if (++n === 6000) { console.log(bytes); c.close(); s.close(); } else c.send("ä".repeat(n % 9000));
        });
    """),
    node("rollup", "rollup@4.68.8", """
        import { rollup } from "rollup";
        const part = i => `import {g${i + 1}} from "m${i + 1}";\\nexport function g${i}(a) { return a > ${i} ? g${i + 1}(a - 1) : [a, ${i}] }\\nexport const unused${i} = ${i};`;
        const files = Object.fromEntries(Array.from({ length: 600 }, (_, i) => ["m" + i, part(i)]));
        files.m600 = "export const g600 = x => x";
        const b = await rollup({ input: "m0", plugins: [{ resolveId: x => x, load: x => files[x] }] });
        console.log((await b.generate({ format: "cjs" })).output[0].code.length);
    """),
    node("snappy", "snappy@7.4.3", """
        import { compress, uncompress } from "snappy";
        import { createHash } from "node:crypto";
        const data = Buffer.from(Array.from({ length: 300_000 }, (_, i) => "word" + (i * 7919) % 4001).join(" "));
        let c;
        for (let n = 0; n < 40; n++) { c = await compress(data); if (!(await uncompress(c)).equals(data)) console.log("wrong"); }
        console.log(c.length, createHash("sha256").update(c).digest("hex"));
    """),
    node("sodium-native", "sodium-native@5.1.0", """
        import s from "sodium-native";
        const out = Buffer.alloc(32), salt = Buffer.alloc(16), key = s.sodium_malloc(32);
        for (let n = 0; n < 30; n++) s.crypto_pwhash(out, Buffer.from("p" + n), salt, 1, 16 << 20, s.crypto_pwhash_ALG_ARGON2ID13);
        // Guarded pages around what it allocates, locked and with rights that change.
        for (let n = 0; n < 500; n++) { const b = s.sodium_malloc(5000); s.sodium_mprotect_readonly(b); s.sodium_mprotect_readwrite(b); s.sodium_free(b); }
        console.log(out.toString("hex"), key.length, key[0]);
    """),
    node("classic-level", "classic-level@3.0.0", """
        import { ClassicLevel } from "classic-level";
        const d = new ClassicLevel("db", { valueEncoding: "buffer" });
        for (let n = 0; n < 30; n++) await d.batch(Array.from({ length: 1000 }, (_, i) => ({ type: "put", key: String((i * 7919 + n) % 5003), value: Buffer.alloc(i % 700, n) })));
        let c = 0, bytes = 0;
        for await (const [k, v] of d.iterator()) { c++; bytes += v.length; }
        await d.close();
        console.log(c, bytes);
    """),
    node("oxc-parser", "oxc-parser@0.159.0", """
        import { parseSync } from "oxc-parser";
        const code = Array.from({ length: 2500 }, (_, i) => `export function f${i}(a: number, b?: string) { return a ?? [b, ${i}] }`).join("\\n");
        let n = 0;
        for (let i = 0; i < 6; i++) n += parseSync("a.ts", code).program.body.length;
        console.log(n);
    """),
    node("biome", "@biomejs/biome@2.6.8", """
        import { execFileSync } from "node:child_process";
        import { createRequire } from "node:module";
        import fs from "node:fs";
        const bin = createRequire(import.meta.url).resolve("@biomejs/biome/bin/biome");
        for (let i = 0; i < 120; i++) fs.writeFileSync(`f${i}.js`, Array.from({ length: 60 }, (_, k) => `function f${k}( a,b ){ return a==b?[a , ${i}]:{a}}`).join("\\n"));
        execFileSync(process.execPath, [bin, "format", "--write", "."], { stdio: "ignore" });
        console.log(fs.readFileSync("f7.js", "utf8").length, fs.readFileSync("f119.js", "utf8").slice(0, 60));
    """),
]
