//! Answers for scripts: one JSON object, or CSV.

use quell_fleet::QuestionAnswer;
use serde_json::{Map, Value, json};

use super::Asked;

/// All answers, rows as objects.
pub(crate) fn json(asked: &Asked<'_>) -> Value {
    let choice = asked.choice;
    let answer = |answer: &QuestionAnswer| {
        let rows: Vec<Value> = answer
            .rows
            .iter()
            .map(|row| object(&answer.columns, row))
            .collect();
        json!({"question": answer.question, "took_ns": answer.took_ns, "columns": answer.columns, "rows": rows})
    };
    json!({
        "schema": "quell/fleet/1",
        "engine": asked.engine.name(),
        "hosts": choice.hosts(),
        "traces": choice.traces.len(),
        "traced_ns": choice.traced_ns(),
        "from_ns": choice.from_ns,
        "to_ns": choice.to_ns,
        "period_ns": choice.period_ns,
        "passed_over": asked.passed,
        "answers": asked.answers.iter().map(answer).collect::<Vec<_>>(),
    })
}

fn object(columns: &[String], row: &[Value]) -> Value {
    let pairs = columns.iter().cloned().zip(row.iter().cloned());
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// One answer, with a header; texts are quoted where they need to be (RFC 4180), and what is missing is empty.
///
/// # Errors
///
/// If it can't be written, which is not known to happen.
pub(crate) fn csv(answer: &QuestionAnswer) -> anyhow::Result<String> {
    let field = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(&answer.columns)?;
    for row in &answer.rows {
        out.write_record(row.iter().map(field))?;
    }
    Ok(String::from_utf8(out.into_inner()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that fields are quoted where they must be, and numbers stay as they are.
    #[test]
    fn csv_is_quoted() {
        let answer = QuestionAnswer {
            question: "stacks".to_owned(),
            took_ns: 1,
            columns: vec!["stack".to_owned(), "n".to_owned(), "x".to_owned()],
            rows: vec![
                vec![
                    json!("a \"b\", c\nd"),
                    json!(9_007_199_254_740_993_u64),
                    Value::Null,
                ],
                vec![json!("plain"), json!(0.5), json!("")],
            ],
        };
        assert_eq!(
            csv(&answer).unwrap(),
            "stack,n,x\n\"a \"\"b\"\", c\nd\",9007199254740993,\nplain,0.5,\n"
        );
        assert_eq!(
            object(&answer.columns, &answer.rows[1]),
            json!({"stack": "plain", "n": 0.5, "x": ""})
        );
    }
}
