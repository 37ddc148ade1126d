// Where the time went in memory management: a bar for each mechanism, of CPU time and of time asleep, who had it done,
// and who held the locks. It is of the whole trace, whatever time is chosen.

const ACCOUNT_TOP = 12;
const HOLDERS_TOP = 5;

const mechanismTime = (m) => m.cpu_ns + m.blocked_ns;
const shareOf = (ns, all) => (all > 0 ? ns / all : 0);

function codeName(who) {
  if (!who) return "";
  const code = who.function && who.file ? `${who.function} (${who.file})` : who.function || who.file;
  const by = who.allocator ? ` by ${who.allocator}` : "";
  const process = who.processes > 1 ? `${count(who.processes)} processes ${who.comm}` : `${who.comm} ${who.pid}`;
  return code ? `${code}${by}, ${process}` : process;
}

function holderName(h) {
  const doing = { reader: `${h.doing}, with others that read`, queued: `${h.doing}, which waited to have it alone`, unknown: "not known: it was handed on" }[h.role] || h.doing;
  return h.pid > 0 ? `${h.comm} ${h.pid}: ${doing}` : doing;
}

function accountBar(m, most) {
  const part = (ns, kind) => {
    const node = el("span", { class: `share ${kind}` });
    node.style.width = `${(shareOf(ns, most) * 100).toFixed(2)}%`;
    return node;
  };
  return el("div", { class: "shares" }, part(m.cpu_ns, "cpu"), part(m.blocked_ns, "asleep"));
}

function accountRow(account, m, most) {
  const lines = () => [
    el("b", {}, m.mechanism),
    `CPU time ${time(m.cpu_ns)} (${time(m.ci95[0])} to ${time(m.ci95[1])}), ${percent(shareOf(m.cpu_ns, account.cpu_ns))} of all`,
    `asleep ${time(m.blocked_ns)}, longest ${time(m.longest_ns)}`,
    ...m.parts.slice(0, 4).map((p) => `${p.part} ${percent(shareOf(p.cpu_ns, m.cpu_ns))}`),
    ...(m.advice || []).slice(0, 3).map((a) => `${a.advice} ${percent(shareOf(mechanismTime(a), mechanismTime(m)))}`),
    ...m.who.slice(0, 4).map((w) => `${percent(shareOf(mechanismTime(w), mechanismTime(m)))} ${codeName(w)}`),
  ];
  const row = el("tr", { onmousemove: (event) => tip(event, ...lines()), onmouseleave: untip },
    el("td", { class: "name mechanism" }, m.mechanism),
    el("td", { class: "bars" }, accountBar(m, most)),
    el("td", { class: "n" }, m.cpu_ns > 0 ? time(m.cpu_ns) : "–"),
    el("td", { class: "n" }, m.cpu_ns > 0 ? percent(shareOf(m.cpu_ns, account.cpu_ns)) : "–"),
    el("td", { class: "n" }, m.blocked_ns > 0 ? time(m.blocked_ns) : "–"),
    el("td", { class: "name aside" }, codeName(m.who[0])));
  return row;
}

function holderRows(account) {
  return account.mechanisms.flatMap((m) => (m.holders || []).slice(0, HOLDERS_TOP).map((h) => el("tr", {},
    el("td", { class: "name mechanism" }, m.mechanism),
    el("td", { class: "n" }, time(h.blocked_ns)),
    el("td", { class: "n" }, count(h.waits)),
    el("td", { class: "n" }, time(h.longest_ns)),
    el("td", { class: "name" }, holderName(h)))));
}

const headings = (...names) => el("thead", {}, el("tr", {}, ...names.map(([name, kind]) => el("th", { class: kind, scope: "col" }, name))));

function drawAccount() {
  const account = pageData.account;
  if (!account) { $("account").hidden = true; return; }
  const nothing = account.ceiling.cpu < 0.01 && account.ceiling.wall < 0.01;
  const shares = account.memory_cpu_ci95.map((ns) => percent(Math.min(1, shareOf(ns, account.cpu_ns))));
  $("account-text").textContent = `${nothing ? "Nothing to win here: " : ""}${percent(Math.min(1, shareOf(account.memory_cpu_ns, account.cpu_ns)))} of ${time(account.cpu_ns)} of CPU time is memory management (${shares.join(" to ")}), and it made threads sleep for ${time(account.blocked_ns)}. Settings could touch ${percent(account.ceiling.cpu)} of CPU time.`;
  const most = Math.max(1, ...account.mechanisms.map(mechanismTime));
  const shown = account.mechanisms.slice(0, ACCOUNT_TOP);
  $("account-table").replaceChildren(
    headings(["mechanism", "name"], ["", "bars"], ["CPU time", "n"], ["of CPU", "n"], ["asleep", "n"], ["who", "name aside"]),
    el("tbody", {}, ...shown.map((m) => accountRow(account, m, most))));
  const holders = holderRows(account);
  $("holders").hidden = holders.length === 0;
  $("holders").replaceChildren(el("h2", {}, "Who held the locks"), el("table", {},
    headings(["lock", "name"], ["asleep for it", "n"], ["waits", "n"], ["longest", "n"], ["holder", "name"]),
    el("tbody", {}, ...holders)));
}
