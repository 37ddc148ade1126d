//! Findings as SARIF 2.1.0 (OASIS), for CI systems that collect such.

use serde_json::{Value, json};

use crate::finding::{FileReading, Finding, FindingStatus, Severity};
use crate::rule::AuditRule;

/// The whole log, of one run. `version` is quell's.
#[must_use]
pub fn sarif_log(findings: &[Finding], rules: &[&AuditRule], version: &str) -> Value {
    let rule = |r: &&AuditRule| {
        json!({
            "id": r.id,
            "shortDescription": { "text": r.title },
            "fullDescription": { "text": r.why },
            "help": { "text": format!("Source: {}. Cost of the fix: {}", r.source, r.risk) },
            "defaultConfiguration": { "level": sarif_level(r.severity) },
        })
    };
    let shown = findings.iter().filter(|f| f.status != FindingStatus::Ok);
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "quell doctor",
                "version": version,
                "rules": rules.iter().map(rule).collect::<Vec<_>>(),
            }},
            "results": shown.map(sarif_result).collect::<Vec<_>>(),
        }],
    })
}

fn sarif_result(f: &Finding) -> Value {
    let unknown = f.status == FindingStatus::Unknown;
    let mut text = format!("{}: {}", f.title, f.said);
    if let Some(harm) = &f.harm {
        text.push_str(&format!(" ({})", harm.description));
    }
    let location = |r: &FileReading| match file_uri(&r.path) {
        Some(uri) => json!({ "physicalLocation": { "artifactLocation": { "uri": uri } },
                             "message": { "text": r.value } }),
        // a source that is no file, such as the processor's own answer
        None => json!({ "message": { "text": format!("{}: {}", r.path, r.value) } }),
    };
    let locations = f.read.iter().map(location);
    json!({
        "ruleId": f.rule,
        // a rule that could not look is open, and no pass (SARIF 2.1.0, 3.27.9)
        "kind": if unknown { "open" } else { "fail" },
        "level": if unknown { "none" } else { sarif_level(f.severity) },
        "message": { "text": text },
        "locations": locations.collect::<Vec<_>>(),
        "properties": { "severity": f.severity, "fixNow": f.fix_now(), "fixLasting": f.fix_lasting() },
    })
}

fn sarif_level(severity: Severity) -> &'static str {
    match severity {
        Severity::Info | Severity::Low => "note",
        Severity::Medium => "warning",
        Severity::High | Severity::Critical => "error",
    }
}

/// The file alone, as RFC 3986 has it: the part that was read may stand behind a space.
fn file_uri(path: &str) -> Option<String> {
    let file = path.split(' ').next().filter(|f| f.starts_with('/'))?;
    let mut uri = "file://".to_owned();
    for byte in file.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:@,+=".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    Some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a location is a URI, and that what is no file has none.
    #[test]
    fn locations_are_uris() {
        let uri = |path| file_uri(path).unwrap_or_default();
        assert_eq!(uri("/proc/stat cpu, steal"), "file:///proc/stat");
        assert_eq!(uri(r"/sys/a\x2d1.scope"), "file:///sys/a%5Cx2d1.scope");
        assert_eq!(uri("CPUID 8000_0008h EBX bit 3"), "");
    }
}
