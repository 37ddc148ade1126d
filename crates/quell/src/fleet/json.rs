//! Answers for scripts: one JSON object, or CSV.

use quell_fleet::QuestionAnswer;
use serde_json::{Map, Value, json};

use super::FleetAnswers;

/// All answers as JSON, with rows as objects.
pub(crate) fn answers_json(asked: &FleetAnswers<'_>) -> Value {
    let choice = asked.choice;
    let answer = |answer: &QuestionAnswer| {
        let rows: Vec<Value> = answer
            .rows
            .iter()
            .map(|row| row_object(&answer.columns, row))
            .collect();
        json!({"question": answer.question, "took_ns": answer.took_ns, "columns": answer.columns, "rows": rows})
    };
    json!({
        "schema": "quell/fleet/1",
        "engine": asked.engine.name(),
        "hosts": choice.host_count(),
        "traces": choice.traces.len(),
        "traced_ns": choice.traced_ns(),
        "from_ns": choice.from_ns,
        "to_ns": choice.to_ns,
        "period_ns": choice.period_ns,
        "passed_over": asked.passed,
        "answers": asked.answers.iter().map(answer).collect::<Vec<_>>(),
    })
}

fn row_object(columns: &[String], row: &[Value]) -> Value {
    let pairs = columns.iter().cloned().zip(row.iter().cloned());
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// One answer as CSV with a header. Texts are quoted where RFC 4180 wants it, and missing values are empty.
///
/// # Errors
///
/// None in practice: the text is written to memory.
pub(crate) fn answer_csv(answer: &QuestionAnswer) -> anyhow::Result<String> {
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
            answer_csv(&answer).unwrap(),
            "stack,n,x\n\"a \"\"b\"\", c\nd\",9007199254740993,\nplain,0.5,\n"
        );
        assert_eq!(
            row_object(&answer.columns, &answer.rows[1]),
            json!({"stack": "plain", "n": 0.5, "x": ""})
        );
    }
}
