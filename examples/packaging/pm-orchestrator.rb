# Template of a Homebrew formula. `brew update-python-resources pm-orchestrator` fills in the resources;
# VERSION and SHA256 are those of the sdist in dist/ after `make dist`.
class PmOrchestrator < Formula
  include Language::Python::Virtualenv

  desc "Puts a coding agent to work, judges what it did, and sends it back with the reasons"
  homepage "https://github.com/pm-orchestrator/pm-orchestrator"
  url "https://github.com/pm-orchestrator/pm-orchestrator/releases/download/vVERSION/pm_orchestrator-VERSION.tar.gz"
  sha256 "SHA256"
  license "Apache-2.0"

  depends_on "libyaml"
  depends_on "python@3.13"
  depends_on "re2"

  def install
    virtualenv_install_with_resources
    generate_completions_from_executable(bin/"pm", "completion", shells: [:bash, :zsh, :fish])
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/pm version")
    system bin/"pm", "demo"
  end
end
