"""What no linter looks at in packaging/: whether its parts agree with each other and with quell.

    check_packaging.py rules                   names of metrics, commands and documents; what is tested
    check_packaging.py config > ALL            agent.toml has every key of the source; prints it with all of them on
    check_packaging.py pods UNIT MANIFEST      a pod has the rights that the unit has, and no more
    check_packaging.py pids MANIFEST BOOL      whether a pod sees the node's processes
    check_packaging.py mounts MANIFEST         the files that a pod's agent.toml names are in it, and secrets are its user's only
    check_packaging.py policy MANIFEST LABEL   namespaces with the label KEY=VALUE reach the pods' port, and nobody else anything
    check_packaging.py job MANIFEST JOB        what the PodMonitor calls the agents, and what QuellAgentDown looks for
    check_packaging.py crds DIR MANIFEST       manifests of the Prometheus operator against its CRDs in DIR
    check_packaging.py groups MANIFEST > FILE  the rules in a PrometheusRule, for promtool
"""

import re
import sys
from pathlib import Path

import yaml

PROMETHEUS = Path("packaging/prometheus")
wrong = []


def groups(name):
    return [rule for group in yaml.safe_load((PROMETHEUS / name).read_text())["groups"] for rule in group["rules"]]


def tests(name):
    return yaml.safe_load((PROMETHEUS / name).read_text())["tests"]


def rules():
    records, alerts = groups("quell-rules.yml"), groups("quell-alerts.yml")
    sources = "".join(Path(f"crates/quell/src/agent/{name}.rs").read_text() for name in ("figures", "own"))
    told = set(re.findall(r'"(quell_\w+)"', sources))
    recorded = {rule["record"] for rule in records}
    for rule in records + alerts:
        name = rule.get("record") or rule["alert"]
        used = set(re.findall(r"(?<![\w:])quell_\w+", re.sub(r"\w+:quell_[\w:]+", "", rule["expr"])))
        for metric in used:
            base = re.sub(r"_(total|bucket|count|sum)$", "", metric)
            if base not in told:
                wrong.append(f"{name}: the agent tells no {metric}")
        for record in re.findall(r"\w+:quell_[\w:]+", rule["expr"]):
            if record not in recorded:
                wrong.append(f"{name}: there is no rule {record}")
    exprs = [test["expr"] for one in tests("quell-tests.yml") for test in one["promql_expr_test"] if test["exp_samples"]]
    for record in recorded:
        if not any(record in re.findall(r"[\w:]+", expr) for expr in exprs):
            wrong.append(f"quell-tests.yml: nothing tests {record}")
    fired, silent = set(), set()
    for one in tests("quell-alert-tests.yml"):
        for test in one["alert_rule_test"]:
            (fired if test["exp_alerts"] else silent).add(test["alertname"])
    cli = Path("crates/quell/src/cli/mod.rs").read_text()
    verbs = {verb.lower() for verb in re.findall(r"^    (\w+)\(\w+Args\),", cli, re.M)}
    assert "doctor" in verbs, "the verbs are elsewhere now"
    for alert in alerts:
        name = alert["alert"]
        if name not in fired or name not in silent:
            wrong.append(f"quell-alert-tests.yml: {name} is not tested both firing and not")
        if alert.get("labels", {}).get("severity") not in ("critical", "warning", "info") or "for" not in alert:
            wrong.append(f"{name}: severity is critical, warning or info, and for is there")
        notes = alert.get("annotations", {})
        text = notes.get("description", "")
        if not notes.get("summary") or not text:
            wrong.append(f"{name}: it lacks a summary or description")
        commands = re.findall(r"(?<![\w-])quell ([a-z]+)(?= |;|,|\.|:|$)", text)
        commands = [verb for verb in commands if verb in verbs] if "agent" not in text else commands
        documents = re.findall(r"docs/[\w.-]+\.md", text)
        if not commands and not documents:
            wrong.append(f"{name}: it points to no command of quell's and no document")
        for document in documents:
            if not Path(document).exists():
                wrong.append(f"{name}: there is no {document}")
    print(f"check_packaging: {len(records)} recording rules and {len(alerts)} alerts agree with the agent and their tests")


def config():
    text = Path("packaging/agent.toml").read_text()
    everything = re.sub(r"^#(?=[a-z_]+ = |\[)", "", text, flags=re.M)
    wanted = set()
    for source in ("config.rs", "trigger.rs"):
        code = Path("crates/agent/src", source).read_text().split("#[cfg(test)]")[0]
        for body in re.findall(r"Deserialize\)\]\n(?:#\[[^\n]*\]\n)*pub struct \w+ \{(.*?)\n\}", code, re.S):
            wanted |= {field for field in re.findall(r"^    pub (\w+):", body, re.M)}
    # a table each
    wanted -= {"rules"}
    assert {"listen", "pause", "regression"} <= wanted, "the configuration is elsewhere now"
    for key in sorted(wanted):
        if not re.search(rf"^(\[*(traces\.)?{key}\]+|{key} = )", everything, re.M):
            wrong.append(f"agent.toml: it lacks {key}")
    for key in re.findall(r"^([a-z_0-9]+) = ", everything, re.M):
        if key not in wanted:
            wrong.append(f"agent.toml: the agent knows no {key}")
    print(everything, end="")


def pods(unit, manifest):
    given = re.search(r"^CapabilityBoundingSet=(.*)$", Path(unit).read_text(), re.M)[1].split()
    given = {cap.removeprefix("CAP_") for cap in given}
    found = 0
    for document in yaml.safe_load_all(Path(manifest).read_text()):
        if not document or document["kind"] != "DaemonSet":
            continue
        found += 1
        pod = document["spec"]["template"]["spec"]
        if pod.get("hostNetwork") or pod.get("automountServiceAccountToken") is not False:
            wrong.append("the pod has the node's network, or a token of the cluster")
        for container in pod["containers"]:
            secure = container["securityContext"]
            if secure["capabilities"]["drop"] != ["ALL"] or set(secure["capabilities"]["add"]) != given:
                wrong.append(f"the pod has {secure['capabilities']}, the unit {sorted(given)}")
            if secure.get("privileged") or secure.get("allowPrivilegeEscalation") is not False:
                wrong.append("the pod may get more rights")
            if secure.get("readOnlyRootFilesystem") is not True:
                wrong.append("the pod may write to its image")
            # systemd's M is Kubernetes' Mi, and its 50% are 500m
            text = Path(unit).read_text()
            said = {name: re.search(rf"^{name}=(\d+)[M%]$", text, re.M)[1] for name in ("MemoryMax", "CPUQuota")}
            bounds = {"memory": said["MemoryMax"] + "Mi", "cpu": f"{said['CPUQuota']}0m"}
            if container["resources"]["limits"] != bounds:
                wrong.append(f"the pod's limits are {container['resources']['limits']}, the unit's {bounds}")
            # another name of the host after each rollout would be another host
            hosts = [one.get("valueFrom") for one in container.get("env", []) if one["name"] == "QUELL_HOST"]
            if hosts != [{"fieldRef": {"fieldPath": "spec.nodeName"}}]:
                wrong.append(f"QUELL_HOST is not the node's name: {hosts}")
            probes = [container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")]
            if probes != ["/healthz"] * 2:
                wrong.append(f"probes ask {probes}")
            writes = {mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
            if writes - {"traces"}:
                wrong.append(f"the pod may write to {sorted(writes)}")
    if not found:
        wrong.append(f"{manifest}: there is no DaemonSet")


def mounts(manifest):
    documents = [document for document in yaml.safe_load_all(Path(manifest).read_text()) if document]
    toml = next(one["data"]["agent.toml"] for one in documents if one["kind"] == "ConfigMap")
    pod = next(one for one in documents if one["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for name, volume in volumes.items():
        if "secret" in volume and volume["secret"].get("defaultMode") != 0o400:
            wrong.append(f"{manifest}: others can read the secret of {name}")
    there = {}
    for mount in pod["containers"][0]["volumeMounts"]:
        there[mount["mountPath"]] = volumes.get(mount["name"], {})
        if mount["name"] not in volumes:
            wrong.append(f"{manifest}: there is no volume {mount['name']}")
    paths = [Path(path) for path in re.findall(r'^\w+ = "(/(?:etc|var)/[^"]+)"$', toml, re.M)]
    assert paths, "agent.toml names no file"
    for path in paths:
        volume = there.get(str(path)) or there.get(str(path.parent))
        items = (volume or {}).get("secret", {}).get("items")
        if not volume or items and path.name not in [item["path"] for item in items]:
            wrong.append(f"{manifest}: the pod has no {path}, which agent.toml names")


def policy(manifest, label):
    documents = [document for document in yaml.safe_load_all(Path(manifest).read_text()) if document]
    pods = next(one for one in documents if one["kind"] == "DaemonSet")["spec"]
    policies = [one["spec"] for one in documents if one["kind"] == "NetworkPolicy"]
    port = pods["template"]["spec"]["containers"][0]["ports"][0]["name"]
    key, value = label.split("=")
    # no more, no less: a peer or a port that is forgotten is all of them
    wanted = {
        "podSelector": pods["selector"],
        "policyTypes": ["Ingress"],
        "ingress": [{
            "from": [{"namespaceSelector": {"matchLabels": {key: value}}}],
            "ports": [{"protocol": "TCP", "port": port}],
        }],
    }
    if policies != [wanted]:
        wrong.append(f"{manifest}: the policy is {policies}, not {[wanted]}")


def job(manifest, wanted):
    documents = [document for document in yaml.safe_load_all(Path(manifest).read_text()) if document]
    one = {document["kind"]: document["spec"] for document in documents if "spec" in document}
    given = one["DaemonSet"]["template"]["metadata"]["labels"][one["PodMonitor"]["jobLabel"]]
    alerts = {rule.get("alert"): rule["expr"] for group in one["PrometheusRule"]["groups"] for rule in group["rules"]}
    looked = alerts["QuellAgentDown"]
    if given != wanted or looked != f'up{{job="{wanted}"}} == 0':
        wrong.append(f"{manifest}: the job is {given}, the alert's {looked}, and both should be {wanted}")


def pids(manifest, wanted):
    for document in yaml.safe_load_all(Path(manifest).read_text()):
        if document and document["kind"] == "DaemonSet":
            told = document["spec"]["template"]["spec"].get("hostPID")
            if told is not {"true": True, "false": False}[wanted]:
                wrong.append(f"{manifest}: hostPID is {told}, not {wanted}")
            return
    wrong.append(f"{manifest}: there is no DaemonSet")


def strict(schema):
    """What a schema doesn't name is a mistake, unless it says itself that anything may be there."""
    if isinstance(schema, dict):
        if "properties" in schema and "additionalProperties" not in schema:
            free = schema.get("x-kubernetes-preserve-unknown-fields")
            schema = {**schema, **({} if free else {"additionalProperties": False})}
        return {key: strict(value) for key, value in schema.items()}
    return [strict(one) for one in schema] if isinstance(schema, list) else schema


def crds(folder, manifest):
    import jsonschema

    # "=" is a word there
    yaml.SafeLoader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)
    known = {}
    for path in Path(folder).glob("*.yaml"):
        crd = yaml.safe_load(path.read_text())
        for version in crd["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            # what is anywhere in Kubernetes
            schema["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            known[f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]] = strict(schema)
    found = []
    for document in yaml.safe_load_all(Path(manifest).read_text()):
        schema = document and known.get((document["apiVersion"], document["kind"]))
        if schema:
            found.append(document["kind"])
            for error in jsonschema.Draft7Validator(schema).iter_errors(document):
                wrong.append(f"{document['kind']}: {error.json_path}: {error.message[:200]}")
    if sorted(found) != ["PodMonitor", "PrometheusRule"]:
        wrong.append(f"{manifest}: of the operator's kinds there are {found}")


def rule_groups(manifest):
    for document in yaml.safe_load_all(Path(manifest).read_text()):
        if document and document["kind"] == "PrometheusRule":
            yaml.safe_dump(document["spec"], sys.stdout)
            return
    wrong.append(f"{manifest}: there is no PrometheusRule")


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    checks = {"rules": rules, "config": config, "pods": pods, "mounts": mounts, "policy": policy, "job": job, "pids": pids,
              "crds": crds, "groups": rule_groups}
    checks[what](*words)
    for line in wrong:
        print(f"check_packaging: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)
