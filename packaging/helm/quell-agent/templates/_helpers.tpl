{{- define "quell-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "quell-agent.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "quell-agent.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "quell-agent.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "quell-agent.selector" -}}
app.kubernetes.io/name: {{ include "quell-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "quell-agent.labels" -}}
{{ include "quell-agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "quell-agent.scheme" -}}
{{ ternary "HTTPS" "HTTP" .Values.tls.enabled }}
{{- end }}

{{- /* agent.toml: keys of its own first, then tables, as TOML has it */}}
{{- define "quell-agent.toml" -}}
listen = "0.0.0.0:{{ .Values.port }}"
token_file = "/etc/quell/token/token"
{{- if .Values.tls.enabled }}
tls_cert = "/etc/quell/tls/tls.crt"
tls_key = "/etc/quell/tls/tls.key"
{{- end }}
interval = {{ .Values.interval | int }}
doctor_interval = {{ .Values.doctorInterval | int }}
{{- with .Values.config }}
{{- if and (contains "/etc/quell/push/" .) (not $.Values.push.secretName) }}
{{- fail "config names a file in /etc/quell/push: push.secretName has to say which secret that is" }}
{{- end }}
{{ . | trim }}
{{- end }}
{{- with .Values.traces }}
{{- if .enabled }}

[traces]
dir = "/var/lib/quell/traces"
limit_mb = {{ .limitMb | int }}
reserve_mb = {{ .reserveMb | int }}
seconds = {{ .seconds | int }}
pause = {{ .pause | int }}
{{- range .rules }}

[[traces.rule]]
{{- range $key, $value := . }}
{{ $key }} = {{ $value | toJson }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
